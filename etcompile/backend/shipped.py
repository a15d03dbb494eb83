"""The files of `templates/` as Python. Made by templates/generate.py; do not edit."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Values = Mapping[str, Any]

SOURCES = {
    "discover_hosts.sh.j2": "6cfd366655a0c6945b3a7ef9752cc75417af3265f0864efc1137b9d776221bba",
    "finished.sh.j2": "6266588d7b4ceddf09ed416dcc7f3ae5225d49778480c72001d6371185d01b83",
    "kubexec.sh.j2": "6a3f82a864ad91f378fac562e4f8d1a84671302adb7436c847526b2a569a98ab",
    "prime-rendezvous.py.j2": "a6afd6d90eb759a922f5c33a2c10c17c2c710114ad162f2c873860c509c2b913",
    "run-once.sh.j2": "97448512a64b7b3f0d1c3b2fa9154c420febfb8f62ae80be90b7858b9b868023",
    "ssh-keys.sh.j2": "71d72c606ea40093692192c92e5b794c1d0a3615251deb5d736a973dfab23b8d",
    "start-master.sh.j2": "216bd0480f89cd26da196c44abc4d0b94dd6bb4e7d65b16e02825d5573b52493",
    "until-done.sh.j2": "3ace5a87b52ed24909ed14647ecf8f7274dc96395f7bd35bca6576b30a4a917b",
    "wait-for-workers.sh.j2": "dc3d78ada00a21d51316558c85b2df29334d7b0e6e383c75e1e8044568997741",
    "worker.sh.j2": "a3fbfbbf6663aed7738a8473c90a503cd8ed23d9b737ed01170282852700773e",
}


def _discover_hosts_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# Prints the job's hosts, one `NAME:SLOTS` line each: the live list, else the seed from Git.\n"
        "# Horovod runs this every second, so it starts no process; and it takes any line for a host,\n"
        "# so `read` is right to leave out a last line without its newline: a torn `NAME-1` of\n"
        "# `NAME-10:1` would be another worker.\n"
        "\n"
        "print_hosts() {\n"
        "    any=1\n"
        "    while read -r host; do\n"
        "        [ -n \"$host\" ] || continue\n"
        "        printf '%s\\n' \"$host\"\n"
        "        any=0\n"
        "    done < \"$1\"\n"
        "    return \"$any\"\n"
        "}\n"
        "\n"
        "for list in '"
    )
    yield str(values["live"])
    yield "' '"
    yield str(values["seed"])
    yield (
        "'; do\n"
        "    [ -r \"$list\" ] && print_hosts \"$list\" && exit 0\n"
        "done\n"
        "\n"
        "# Not success with empty output: old Horovod takes that for a host without a name, while after\n"
        "# a failure it keeps the hosts that it knows.\n"
        "echo \"etcompile: no host in '"
    )
    yield str(values["live"])
    yield "' or '"
    yield str(values["seed"])
    yield (
        "'\" >&2\n"
        "exit 1\n"
    )


def _finished_sh(values: Values) -> Iterator[str]:
    yield (
        "# True once the run record holds this Pod's own spec hash: the run is done. The record is\n"
        "# optional and written by the watcher; without it a run is never done.\n"
        "finished() {\n"
        "    done_hash='' own_hash=''\n"
        "    { read -r done_hash < '"
    )
    yield str(values["status_done"])
    yield (
        "'; } 2>/dev/null\n"
        "    { read -r own_hash < '"
    )
    yield str(values["spec_hash_file"])
    yield (
        "'; } 2>/dev/null\n"
        "    [ -n \"$own_hash\" ] && [ \"$done_hash\" = \"$own_hash\" ]\n"
        "}\n"
    )


def _kubexec_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# kubexec.sh [SSH-OPTION...] HOST [SSH-OPTION...] COMMAND...\n"
        "# Stands in for ssh where a launcher asks for a remote shell: runs the command in the Pod HOST.\n"
        "# Launchers write ssh's options before or after the host; they mean nothing here.\n"
        "\n"
        "host=''\n"
        "while [ $# -gt 0 ]; do\n"
        "    case $1 in\n"
        "        -[BbcDEeFIiJLlmOopQRSWw]) [ $# -lt 2 ] || shift ;; # the options of ssh with a value\n"
        "        -?*) ;;\n"
        "        *) [ -z \"$host\" ] || break; host=${1##*@} ;;\n"
        "    esac\n"
        "    shift\n"
        "done\n"
        "host=${host%%.*} # a Pod has no domain\n"
        "if [ -z \"$host\" ]; then\n"
        "    echo 'etcompile: usage: kubexec.sh HOST COMMAND...' >&2\n"
        "    exit 2\n"
        "fi\n"
        "\n"
        "kubectl='"
    )
    yield str(values["kubectl"])
    yield (
        "'\n"
        "[ -x \"$kubectl\" ] || kubectl=$(command -v kubectl) || {\n"
        "    echo 'etcompile: no kubectl: neither "
    )
    yield str(values["kubectl"])
    yield (
        " nor in PATH' >&2\n"
        "    exit 127\n"
        "}\n"
    )
    if values["pods"]:
        yield (
            "# The Pods of a run have names of their own, and host lists have the hosts'.\n"
            "case $host in\n"
        )
        for loop_host_name, loop_pod_name in values["pods"]:
            yield "    "
            yield str(loop_host_name)
            yield " | "
            yield str(loop_host_name)
            yield "-*) host="
            yield str(loop_pod_name)
            yield "${host#"
            yield str(loop_host_name)
            yield "} ;;\n"
        yield "esac\n"
    yield (
        "# One string for a shell, as ssh does it: launchers pass a ready-made command line.\n"
        "exec \"$kubectl\" exec \"$host\""
    )
    if values["container"]:
        yield " --container '"
        yield str(values["container"])
        yield "'"
    yield " -- /bin/sh -c \"$*\"\n"


def _prime_rendezvous_py(values: Values) -> Iterator[str]:
    yield (
        "\"\"\"Tells a master that has just started how many nodes meet there, as the first agent would.\n"
        "\n"
        "It runs beside the master, in the same container, with the master's own client. The first report\n"
        "counts, and the agents' say the same.\n"
        "\"\"\"\n"
        "\n"
        "import socket\n"
        "import time\n"
        "\n"
        "from dlrover.python.elastic_agent.master_client import build_master_client\n"
        "\n"
        "PORT = "
    )
    yield str(values["port"])
    yield (
        "\n"
        "# The fewest nodes, the most, seconds to wait for more than the fewest, what their number is a\n"
        "# multiple of, seconds until a node gives up. DLRover 0.3 does not know the last.\n"
        "RENDEZVOUS = ("
    )
    yield str(values["minimum"])
    yield ", "
    yield str(values["maximum"])
    yield ", "
    yield str(values["lastcall"])
    yield ", "
    yield str(values["unit"])
    yield ", "
    yield str(values["join"])
    yield (
        ")\n"
        "\n"
        "\n"
        "def listens():\n"
        "    try:\n"
        "        socket.create_connection((\"127.0.0.1\", PORT), 1).close()\n"
        "    except OSError:\n"
        "        return False\n"
        "    return True\n"
        "\n"
        "\n"
        "while not listens():\n"
        "    time.sleep(0.1)\n"
        "report = build_master_client(f\"127.0.0.1:{PORT}\").report_rdzv_params\n"
        "try:\n"
        "    report(*RENDEZVOUS)\n"
        "except TypeError:\n"
        "    report(*RENDEZVOUS[:4])\n"
        "print(f\"etcompile: told the master of its rendezvous, {RENDEZVOUS}\", flush=True)\n"
    )


def _run_once_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# Runs the command given as arguments, unless its run is done already: a Pod that was deleted\n"
        "# after the end is created again by whatever syncs Git, and must not train again.\n"
        "\n"
    )
    yield from _finished_sh(values)
    yield (
        "\n"
        "if finished; then\n"
        "    echo \"etcompile: run $own_hash is done, not running it again\" >&2\n"
        "    exit 0\n"
        "fi\n"
        "exec \"$@\"\n"
    )


def _ssh_keys_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# Copies the ssh key pair to where the container's user may read it: files of a Secret belong\n"
        "# to root, and ssh refuses a private key that anybody else can read. Runs as that user.\n"
        "\n"
        "umask 077\n"
        "mkdir -p '"
    )
    yield str(values["ssh_home"])
    yield "' && cd '"
    yield str(values["ssh_home"])
    yield "' || exit 1\n"
    if values["renamed"]:
        yield "chmod 0700 . 2> /dev/null # of root's: sshd refuses a folder that others may write to\n"
        for loop_key, loop_file, loop_mode in values["renamed"]:
            yield "cp -f '"
            yield str(values["secret_dir"])
            yield "/"
            yield str(loop_key)
            yield "' '"
            yield str(loop_file)
            yield "' && chmod "
            yield str(loop_mode)
            yield " '"
            yield str(loop_file)
            yield "' || exit 1\n"
        yield ": > config\n"
        for loop_line in values["config"]:
            yield "printf '%s\\n' '"
            yield str(loop_line)
            yield "' >> config\n"
    else:
        yield "for file in '"
        yield str(values["secret_dir"])
        yield (
            "'/*; do\n"
            "    case $file in\n"
            "        *.pub | */authorized_keys) mode=0644 ;; # sshd reads it as the user who logs in\n"
            "        *) mode=0600 ;;\n"
            "    esac\n"
            "    cp -f \"$file\" . && chmod \"$mode\" \"${file##*/}\" || exit 1\n"
            "done\n"
        )
    if values["port"] != 22:
        yield (
            "# Last, and for every host: ssh takes the first value that it meets, so the user's come first.\n"
            "printf '\\nHost *\\n    Port %s\\n' "
        )
        yield str(values["port"])
        yield " >> config\n"


def _start_master_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# Starts DLRover's master, the command given as arguments, and has it told how many nodes meet\n"
        "# there. Agents report that when they start and never again, so a master that was started again\n"
        "# would let the first one go on alone.\n"
        "\n"
        "python '"
    )
    yield str(values["prime"])
    yield (
        "' &\n"
        "exec \"$@\"\n"
    )


def _until_done_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# Runs the command given as arguments until it ends or its run is done: a server that never ends\n"
        "# by itself would hold its node, and nobody but this may end it where Git declares its Pod.\n"
        "\n"
    )
    yield from _finished_sh(values)
    yield (
        "\n"
        "if finished; then\n"
        "    echo \"etcompile: run $own_hash is done, not running it again\" >&2\n"
        "    exit 0\n"
        "fi\n"
        "\n"
        "child='' nap='' told=''\n"
        "# shellcheck disable=SC2086 # either may be empty\n"
        "trap 'told=yes; kill $child $nap 2>/dev/null' TERM\n"
        "# Not INT itself, which a shell lets none of its background processes have.\n"
        "# shellcheck disable=SC2086\n"
        "trap 'told=yes; kill $child $nap 2>/dev/null' INT\n"
        "\"$@\" &\n"
        "child=$!\n"
        "[ -z \"$told\" ] || kill \"$child\" 2>/dev/null\n"
        "\n"
        "while kill -0 \"$child\" 2>/dev/null; do\n"
        "    if [ -n \"$told\" ]; then\n"
        "        wait \"$child\"\n"
        "        code=$?\n"
        "        kill -0 \"$child\" 2>/dev/null || exit \"$code\"\n"
        "        continue # told once more\n"
        "    fi\n"
        "    if finished; then\n"
        "        echo \"etcompile: run $own_hash is done, ending\" >&2\n"
        "        kill \"$child\"\n"
        "        wait \"$child\"\n"
        "        exit 0\n"
        "    fi\n"
        "    sleep "
    )
    yield str(values["poll_seconds"])
    yield (
        " &\n"
        "    nap=$!\n"
        "    [ -z \"$told\" ] || kill \"$nap\" 2>/dev/null # told before it had a name\n"
        "    wait \"$nap\" # unlike a foreground sleep, lets a signal in at once\n"
        "done\n"
        "wait \"$child\"\n"
    )


def _wait_for_workers_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# Lets a container start once every host of a list can be reached: mpirun, horovodrun and torchrun\n"
        "# end at the first that cannot. Runs in the job's own image, so it makes do with what it finds\n"
        "# there.\n"
        "\n"
        "trap 'exit 143' TERM INT\n"
        "\n"
    )
    yield from _finished_sh(values)
    yield (
        "\n"
        "say() { printf 'etcompile: %s\\n' \"$*\" >&2; }\n"
        "have() { command -v \"$1\" > /dev/null 2>&1; }\n"
        "clock() { read -r now _ < /proc/uptime && now=${now%.*}; } # the time of day may jump\n"
        "\n"
        "if timeout 1 sh -c : 2>/dev/null; then # old busybox: `timeout -t 1`\n"
        "    limits=yes\n"
        "    limited() { timeout \"$@\"; }\n"
        "else\n"
        "    limits=''\n"
        "    limited() { shift; \"$@\"; }\n"
        "fi\n"
        "\n"
        "# reach HOST: succeeds when the host can be reached, else leaves the reason in $why.\n"
    )
    if (values["kubexec"] and not values["ssh"]):
        yield (
            "parallel=4 # kubectl wants memory\n"
            "\n"
            "reach() {\n"
            "    why=$(limited 10 sh '"
        )
        yield str(values["kubexec"])
        yield (
            "' \"$1\" true 2>&1 > /dev/null) && return\n"
            "    why=${why##*\n"
            "}\n"
            "    why=\"exec fails: ${why:-no answer within 10 s}\"\n"
            "    return 1\n"
            "}\n"
        )
    else:
        yield (
            "parallel=16\n"
            "\n"
            "resolves() {\n"
            "    why='does not resolve'\n"
            "    # `hosts` looks an address up backwards; not every getent knows `ahosts`.\n"
            "    limited 2 getent ahosts \"$1\" > /dev/null 2>&1 || limited 2 getent hosts \"$1\" > /dev/null 2>&1\n"
            "}\n"
        )
        if values["ssh"]:
            yield "\n"
            if values["port"]:
                yield "port="
                yield str(values["port"])
                yield "\n"
            else:
                yield (
                    "# The image says where its sshd listens; its ssh is told the same.\n"
                    "port=$(ssh -G localhost 2>/dev/null | sed -n 's/^port //p')\n"
                    "port=${port:-22}\n"
                )
            yield (
                "\n"
                "reach() {\n"
                "    accepts \"$1\" \"$port\" > /dev/null 2>&1 && return\n"
                "    if ! have getent; then\n"
                "        why=\"does not resolve, or port $port does not accept\"\n"
                "    elif resolves \"$1\"; then\n"
                "        why=\"port $port does not accept\"\n"
                "    fi\n"
                "    return 1\n"
                "}\n"
                "\n"
                "nc_has_z() { have nc && case $(nc -h 2>&1 < /dev/null) in *-z*) ;; *) false ;; esac }\n"
                "\n"
                "if nc_has_z; then\n"
                "    accepts() { limited 2 nc -z -w 2 \"$1\" \"$2\"; }\n"
                "elif have bash && [ -n \"$limits\" ]; then\n"
                "    accepts() { limited 2 bash -c 'exec 3<> \"/dev/tcp/$0/$1\"' \"$1\" \"$2\"; }\n"
                "elif python=$(command -v python3 || command -v python); then # 10 s: it is slow to start\n"
                "    accepts() {\n"
                "        limited 10 \"$python\" -c 'import socket, sys\n"
                "socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)' \"$1\" \"$2\"\n"
                "    }\n"
                "elif have perl; then\n"
                "    accepts() {\n"
                "        limited 10 perl -MIO::Socket::IP -e 'exit !IO::Socket::IP->new(\n"
                "            PeerHost => $ARGV[0], PeerPort => $ARGV[1], Timeout => 2)' \"$1\" \"$2\"\n"
                "    }\n"
                "elif have getent; then\n"
                "    say 'no nc, bash, python or perl here to try ports with: waiting only until names resolve'\n"
                "    reach() { resolves \"$1\"; }\n"
                "else\n"
                "    say 'nothing here to look for the workers with (nc, bash, python, perl, getent): not waiting'\n"
                "    exit 0\n"
                "fi\n"
            )
        else:
            yield (
                "\n"
                "have getent || { say 'no getent here to look for the workers with: not waiting'; exit 0; }\n"
                "reach() { resolves \"$1\"; }\n"
            )
    yield (
        "\n"
        "# Prints a line for each host, in no strict order: `HOST up`, or `HOST` and the reason.\n"
        "try() {\n"
        "    started=0\n"
        "    for host; do\n"
        "        { reach \"$host\" && echo \"$host up\" || echo \"$host $why\"; } &\n"
        "        started=$((started + 1))\n"
        "        [ $((started % parallel)) -ne 0 ] || wait\n"
        "    done\n"
        "    wait\n"
        "}\n"
        "\n"
        "[ -r '"
    )
    yield str(values["hostfile"])
    yield "' ] || { say 'cannot read "
    yield str(values["hostfile"])
    yield (
        "'; exit 1; }\n"
        "hosts=''\n"
        "while read -r line; do\n"
        "    hosts=\"$hosts ${line%%[!A-Za-z0-9._-]*}\"\n"
        "done < '"
    )
    yield str(values["hostfile"])
    yield (
        "'\n"
        "\n"
        "clock\n"
        "begin=$now told_at=$now told=0\n"
        "while :; do\n"
        "    # shellcheck disable=SC2086 # a list of names\n"
        "    set -- $hosts\n"
        "    [ $# -gt 0 ] || break\n"
        "    if finished; then # its workers have left and will not come back\n"
        "        say \"run $own_hash is done, not waiting for its workers\"\n"
        "        exit 0\n"
        "    fi\n"
        "    answers=$(try \"$@\")\n"
        "    asked=$# answered=0 missing=0 hosts='' some=''\n"
        "    IFS='\n"
        "'\n"
        "    for answer in $answers; do\n"
        "        answered=$((answered + 1))\n"
        "        [ \"$answer\" != \"${answer%% *} up\" ] || continue\n"
        "        missing=$((missing + 1))\n"
        "        hosts=\"$hosts ${answer%% *}\"\n"
        "        [ \"$missing\" -gt 3 ] || some=\"$some; ${answer%% *}: ${answer#* }\"\n"
        "    done\n"
        "    unset IFS\n"
        "    if [ \"$answered\" -lt \"$asked\" ]; then # could not fork: nobody knows about the rest\n"
        "        hosts=$* missing=$asked some='; this container cannot start enough processes'\n"
        "    fi\n"
        "    [ \"$missing\" -gt 0 ] || break\n"
    )
    if values["enough"]:
        yield (
            "\n"
            "    # A gang may start with fewer; the live list says who they are, to the launcher too.\n"
            "    here=0\n"
            "    if [ -r '"
        )
        yield str(values["live"])
        yield (
            "' ]; then\n"
            "        while read -r line; do\n"
            "            [ -z \"$line\" ] || here=$((here + 1))\n"
            "        done < '"
        )
        yield str(values["live"])
        yield (
            "'\n"
            "    fi\n"
            "    if [ \"$here\" -ge "
        )
        yield str(values["enough"])
        yield (
            " ]; then\n"
            "        say \"$here hosts are there, enough to begin; $missing are missing\"\n"
            "        exit 0\n"
            "    fi\n"
        )
    yield (
        "\n"
        "    clock\n"
        "    if [ $((now - begin)) -ge "
    )
    yield str(values["timeout_seconds"])
    yield (
        " ]; then\n"
        "        say \"$missing hosts still missing after $((now - begin)) s:\"\n"
        "        printf '%s\\n' \"$answers\" | while read -r host why; do\n"
        "            [ \"$why\" = up ] || say \"  $host: $why\"\n"
        "        done\n"
        "        exit 1\n"
        "    fi\n"
        "    if [ \"$missing\" -ne \"$told\" ] || [ $((now - told_at)) -ge 30 ]; then\n"
        "        say \"waiting for $missing hosts${some}\"\n"
        "        told=$missing told_at=$now\n"
        "    fi\n"
        "    sleep "
    )
    yield str(values["poll_seconds"])
    yield (
        " &\n"
        "    wait $!\n"
        "done\n"
        "[ \"$told\" -eq 0 ] || say 'all hosts are there'\n"
    )


def _worker_sh(values: Values) -> Iterator[str]:
    yield (
        "#!/bin/sh\n"
        "# The main container of a worker: is there for the launcher's processes, which come in by\n"
        "# "
    )
    yield str("ssh" if values["ssh"] else "exec")
    yield (
        ", until the run is done. Then it ends, so that the Pod becomes Succeeded and\n"
        "# frees its node without anybody deleting it. Arguments mean nothing here, as upstream.\n"
        "\n"
    )
    yield from _finished_sh(values)
    yield (
        "\n"
        "sshd='' nap='' keys=''\n"
        "stop() {\n"
        "    # shellcheck disable=SC2086 # either may be empty\n"
        "    kill $sshd $nap 2>/dev/null\n"
        "    [ -z \"$keys\" ] || rm -rf \"$keys\"\n"
        "}\n"
        "trap 'stop; exit 143' TERM INT\n"
    )
    if values["ssh"]:
        yield (
            "\n"
            "# sshd starts itself again for each connection and wants its absolute path for that.\n"
            "for program in /usr/sbin/sshd \"$(command -v sshd)\" ''; do\n"
            "    [ ! -x \"$program\" ] || break\n"
            "done\n"
            "if [ -z \"$program\" ]; then\n"
            "    echo 'etcompile: no sshd in this image' >&2\n"
            "    exit 127\n"
            "fi\n"
            "\n"
            "# The image's sshd_config counts where it does not contradict the job. The key files are mounted\n"
            "# with modes that StrictModes dislikes. Horovod opens one connection per slot at once, and sshd\n"
            "# drops some from the eleventh on.\n"
            "set -- -o PidFile=none -o StrictModes=no \\\n"
            "    -o AuthorizedKeysFile='"
        )
        yield str(values["ssh_home"])
        yield "/authorized_keys' -o MaxStartups=1000\n"
        if values["ssh_port"]:
            yield "set -- -p "
            yield str(values["ssh_port"])
            yield " \"$@\"\n"
        yield (
            "if [ \"$(id -u)\" = 0 ]; then\n"
            "    mkdir -p -m 0755 /run/sshd # for privilege separation\n"
            "    for key in /etc/ssh/ssh_host_*_key; do\n"
            "        [ -e \"$key\" ] || ssh-keygen -A > /dev/null\n"
            "        break\n"
            "    done\n"
            "else\n"
            "    # The host keys and the configuration in /etc/ssh are root's.\n"
            "    keys=$(mktemp -d 2>/dev/null || mktemp -d '"
        )
        yield str(values["ssh_home"])
        yield (
            "/sshd.XXXXXX') || exit 1\n"
            "    ssh-keygen -q -t ed25519 -N '' -f \"$keys/host\" < /dev/null || exit 1\n"
            "    set -- -f /dev/null -o HostKey=\"$keys/host\" \"$@\"\n"
        )
        if not values["ssh_port"]:
            yield (
                "    # Without the image's sshd_config its port is where the image's ssh expects it.\n"
                "    port=$(ssh -G localhost 2>/dev/null | sed -n 's/^port //p')\n"
                "    set -- -p \"${port:-22}\" \"$@\"\n"
            )
        yield (
            "fi\n"
            "# -t tells what is wrong before the log is turned down: it would hold two lines for every\n"
            "# readiness probe, which connects and says nothing.\n"
            "\"$program\" -t \"$@\" || { stop; exit 1; }\n"
            "\"$program\" -D -e -o LogLevel=FATAL \"$@\" &\n"
            "sshd=$!\n"
        )
    yield (
        "\n"
        "until finished; do\n"
    )
    if values["ssh"]:
        yield (
            "    if ! kill -0 \"$sshd\" 2>/dev/null; then\n"
            "        wait \"$sshd\"\n"
            "        echo \"etcompile: sshd ended by itself (exit code $?)\" >&2\n"
            "        stop\n"
            "        exit 1\n"
            "    fi\n"
        )
    yield "    sleep "
    yield str(values["poll_seconds"])
    yield (
        " &\n"
        "    nap=$!\n"
        "    wait \"$nap\" # unlike a foreground sleep, lets a signal in at once\n"
        "done\n"
        "stop\n"
        "exit 0\n"
    )


TEMPLATES: dict[str, Callable[[Values], Iterator[str]]] = {
    "discover_hosts.sh.j2": _discover_hosts_sh,
    "finished.sh.j2": _finished_sh,
    "kubexec.sh.j2": _kubexec_sh,
    "prime-rendezvous.py.j2": _prime_rendezvous_py,
    "run-once.sh.j2": _run_once_sh,
    "ssh-keys.sh.j2": _ssh_keys_sh,
    "start-master.sh.j2": _start_master_sh,
    "until-done.sh.j2": _until_done_sh,
    "wait-for-workers.sh.j2": _wait_for_workers_sh,
    "worker.sh.j2": _worker_sh,
}
