"""A file that is four times as long takes about four times as long, however it is wrong."""

import time

import pytest

import etcompile

JOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a, namespace: ml}
spec:
  mpiReplicaSpecs:
    Worker: {replicas: 1, template: {spec: {containers: [{name: w, image: "a:1"}]}}}
    Launcher:
      template:
        spec:
          containers:
            - name: main
              image: IMAGE
              command: COMMAND
              env: ENV
"""
FIELD = "              x: "
BROKEN = "\n x: {\n# a_token\n"
LINES = (
    *("value: ", "#- name: a_token\n", "# etcompile: ignore[ET2040]\n", "{{ ", "${A-", "[", "{a: "),
    *("&a ", "- ", "? ", "---\n", "---\na: 1\n", "\t", " ", "\r\n", "'", '"', "!x ", "*a ", "<<: "),
    *("name: HF_TOKEN #", "A_TOKEN=", "--token ", "eyJaaaaaaaaa.", "-----BEGIN PRIVATE KEY-----\n"),
    *("UFJJVkFURSBLRVk", "://a:", "glagent-", "\x01", "kind: Secret\n", "a: b: "),
)
WORDS = (
    *("a", "a ", "if ", "! ", "env ", "sudo -u x ", "a && ", "a;", "'", "$", "$(", "${", "`", "#"),
    *("<<A ", "> a ", "A=1 ", "sh -c ", "eval ", "mpirun -np 2 ", "-mca a b ", "-x A=b ", "case "),
    *("ssh -p 2222 ", "Port ", "OMPI_MCA_plm_rsh_args=-p ", "sleep  ", "(", "{", "*", "<(", "--a="),
)
VALUES = ("a", "/a", ":", "@", "a:", "a-", "a.", "a_token=", "0", "a ", "${A}", "{{a}} ", "$(")


def repeated(unit: str, size: int) -> str:
    return unit * (size // len(unit))


def job(image='"a:1"', command="[train]", env="[]", more="") -> str:
    return JOB.replace("IMAGE", image).replace("COMMAND", command).replace("ENV", env) + more


def cases():
    for unit in LINES:
        yield f"file of {unit!r}", lambda n, unit=unit: repeated(unit, n) + BROKEN

        yield (
            f"value of {unit!r}",
            lambda n, unit=unit: job(more=FIELD + repeated(unit, n) + BROKEN),
        )
    for unit in WORDS:
        yield (
            f"script of {unit!r}",
            lambda n, unit=unit: job(command=f'[sh, -c, "{repeated(unit, n)}mpirun -np 2 a"]'),
        )
    for unit in VALUES:
        yield f"image of {unit!r}", lambda n, unit=unit: job(image=f'"{repeated(unit, n)}"')
        yield (
            f"variable of {unit!r}",
            lambda n, unit=unit: job(env=f'[{{name: A, value: "{repeated(unit, n)}"}}]'),
        )
    yield (
        "one line of variables",
        lambda n: job(env="[" + "{name: A_TOKEN, valu: b1}, " * (n // 26) + "]") + BROKEN,
    )
    yield "names nested", lambda n: "".join(f"{' ' * i}a_token: <x>\n" for i in range(int(n**0.5)))


@pytest.mark.programs
@pytest.mark.parametrize(("name", "text"), [*cases()])
def test_time_grows_with_the_file(tmp_path, name, text):
    file = tmp_path / "job.yaml"

    def seconds(size: int) -> float:
        file.write_text(text(size), newline="")
        begun = time.thread_time()
        assert all(len(each.message) <= 4096 for each in etcompile.compile([file]).diagnostics)
        return time.thread_time() - begun

    seconds(1024)
    small, large = seconds(32 * 1024), seconds(128 * 1024)
    # Four times is linear, sixteen times the square.
    assert large < max(9 * small, 0.25)
