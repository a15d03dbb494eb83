"""Runs the command given after `--`, and runs it again when the gang begins a new epoch.

    supervise.py OPTIONS -- COMMAND...

Each replica of a gang has a supervisor. That of the first replica coordinates: the others connect
to it, and nobody runs an epoch that it has not told them to run. No process of an old epoch meets
one of a new one, because of five rules.

1. A member says `hello` or `stopped` only when no process of its command lives.
2. The coordinator says `run E+1` when every member has said so, and not earlier.
3. Both sides of a connection repeat every few seconds the other's clock (`beat`). A lease ends so
   many seconds after the time that the other side repeated last, so a delay in the network cannot
   extend it. When its lease ends, a member kills its command, and the coordinator kills its own.
   So a member that cannot be reached has ended its command when LEASE + FENCE seconds have passed
   since it was last heard.
4. A member that comes back with the same Pod UID proves that its old processes are gone: a kubelet
   starts a container only when the one before has ended. A member with another UID proves nothing
   about the Pod before it. Unless that one said `stopped`, the coordinator waits as rule 3 says.
5. A hello names the coordinators that the member has said hello to, back to the one that answered
   last. A coordinator in another Pod waits until those have lost a lease and ended their own
   commands. One that has said `part` is not among them: everybody had stopped, and it will not say
   `run` again.

The state (epoch, restarts and so on) comes with every `run`. Each member keeps it in a file and
hands it over in its hello, so a coordinator that comes back continues with the newest.

Two things are taken on trust: that KILL ends a process soon, and that a machine which was frozen
longer than its lease runs this program before the command has done harm. docs/recovery.md has more.
"""

import os
import signal
import sys

if sys.version_info < (3, 8):
    sys.stderr.write(
        "etcompile: unsupervised: this image has no Python 3.8 or newer; "
        "the command is not run again in its container\n"
    )
    sys.stderr.flush()
    os.execvp(sys.argv[sys.argv.index("--") + 1], sys.argv[sys.argv.index("--") + 1 :])

ARRIVED = []  # signals
PASSED_ON = ("TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "ALRM", "WINCH", "CONT")
# First of all: process 1 never gets a signal that it does not handle.
for _name in (*PASSED_ON, "CHLD"):
    signal.signal(getattr(signal, "SIG" + _name), lambda number, frame: ARRIVED.append(number))

import json
import resource
import selectors
import socket
import time

FOREVER = float("inf")
LONGEST_MESSAGE = 16 << 20
REAPPEARS = 30.0  # seconds between two checkpoints that members are told to write

OPTIONS = {
    "gang": "",
    "coordinator": "",
    "first": "",
    "port": 29999,
    "stop": 10.0,
    "backoff-limit": -1,
    "serves": False,
    "permanent": "",
    "checkpoint-signal": "",
    "warn": 15.0,
    "gate": "",
    # For tests.
    "root": "/",
    "bind": "",
    "beat": 3.0,
    "lease": 10.0,
    "fence": 5.0,
    "backoff": 1.0,
    "forget": 600.0,
}
USAGE = "usage: supervise.py [OPTIONS] -- COMMAND..."


def clock():
    """Seconds, also those in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def say(text):
    """Writes a line to the log."""
    try:
        os.write(2, (f"etcompile: {text}\n").encode("utf-8", "replace"))
    except OSError:
        pass


def read(path):
    """The text of a file, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def exit_code(code):
    """An exit code in words: 137 is SIGKILL."""
    try:
        return "exit code %d (%s)" % (code, signal.Signals(code - 128).name)
    except ValueError:
        return "exit code %d" % code


def parse(arguments):
    """The options, and the command."""
    options, rest = dict(OPTIONS), list(arguments)
    while rest and rest[0] != "--":
        name, given, value = rest.pop(0)[2:].partition("=")
        if name not in OPTIONS:
            raise ValueError(name)
        if OPTIONS[name] is False:
            options[name] = True
        else:
            options[name] = type(OPTIONS[name])(value if given else rest.pop(0))
    return options, rest[1:]


class Processes:
    """The command and everything that it has started."""

    def __init__(self):
        self.init = os.getpid() == 1
        self.leader = None
        self.reaper = self.init
        if not self.init:
            # Orphans come to us instead of to process 1.
            try:
                import ctypes

                self.reaper = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
            except (ImportError, OSError, AttributeError):
                pass

    def start(self, command, environment, files):
        """Starts the command with the signals, the limits and the input that it has without us."""
        every = [getattr(signal, "SIG" + name) for name in (*PASSED_ON, "CHLD", "PIPE", "XFSZ")]
        more = {} if self.init else {"setpgroup": 0}
        if files:
            resource.setrlimit(resource.RLIMIT_NOFILE, files)
        try:
            self.leader = os.posix_spawnp(
                command[0], command, environment, setsigdef=every, setsigmask=(), **more
            )
        finally:
            if files:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))

    def reap(self):
        """Buries the dead; returns the exit code of the command if it was among them."""
        code = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code
            if not pid:
                return code
            if pid == self.leader:
                self.last, self.leader = pid, None
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def living(self):
        """The processes that live, by number: name and state; the command comes first.

        As process 1 these are all in the container but those that came from outside, such as a
        probe or `kubectl exec`: they have no parent in here. Else they are our descendants.
        """
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", "rb") as file:
                    head, _, tail = file.read().decode("utf-8", "replace").rpartition(") ")
            except OSError:
                continue
            state, parent, group, session = tail.split()[:4]
            # A zombie does nothing any more, unless other threads of it live on.
            if state != "X" and (state != "Z" or int(tail.split()[17]) > 1):
                name = head.partition("(")[2]
                found[int(pid)] = (int(parent), int(group), int(session), state, name)
        own = os.getpid()
        if self.init:
            outside = {pid for pid, (parent, *_) in found.items() if parent == 0 and pid != own}
            ours = [pid for pid in found if pid != own and found[pid][2] not in outside - {0}]
            ours = [pid for pid in ours if pid not in outside]
        else:
            ours, known = [], {own}
            while known:
                known = {pid for pid in found if found[pid][0] in known and pid not in ours}
                ours += known
            group = self.leader or getattr(self, "last", None)
            ours += [pid for pid in found if group in found[pid][1:3] and pid not in ours]
        return {pid: found[pid][4:2:-1] for pid in sorted(ours, key=lambda pid: pid != self.leader)}

    def any_child(self):
        """Whether a child lives, also one that a look at all processes has missed."""
        if self.init or not self.reaper:
            return False
        try:
            return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def handlers(self, name):
        """The processes that handle a signal: any other would die of it."""
        found, number = [], getattr(signal, "SIG" + name)
        for pid in self.living():
            for line in read("/proc/%d/status" % pid).splitlines():
                title, _, mask = line.partition(":")
                if title == "SigCgt" and int(mask, 16) >> (number - 1) & 1:
                    found.append(pid)
        return found

    @staticmethod
    def send(number, pids):
        """Sends a signal to those that are still there."""
        for pid in pids:
            try:
                os.kill(pid, number)
            except OSError:
                pass


class Link:
    """One end of a conversation of JSON lines over TCP, with its lease."""

    def __init__(self, loop, sock, owner):
        self.loop, self.sock, self.owner = loop, sock, owner
        self.input, self.output = bytearray(), bytearray()
        self.heard, self.lease = clock(), clock() + loop.options["lease"]
        self.name = self.uid = None
        self.connected = False
        sock.setblocking(False)
        loop.selector.register(sock, selectors.EVENT_READ, self.ready)

    def say(self, word, **values):
        """Sends a message."""
        if self.sock is not None:
            values["say"] = word
            self.output += json.dumps(values).encode() + b"\n"
            self.flush()

    def answer(self, message):
        """Repeats the other's clock, and takes note of what it has repeated of ours."""
        self.heard = clock()
        if "of" in message:
            self.lease = max(self.lease, float(message["of"]) + self.loop.options["lease"])

    def flush(self):
        """Sends as much as the network takes."""
        try:
            while self.output and self.connected:
                del self.output[: self.sock.send(self.output)]
        except BlockingIOError:
            pass
        except OSError:
            self.output.clear()  # the end comes as an end of the input, after what was received
        wanted = selectors.EVENT_READ
        if self.output or not self.connected:
            wanted |= selectors.EVENT_WRITE
        self.loop.selector.modify(self.sock, wanted, self.ready)

    def ready(self, mask):
        """Receives, and sends what has waited."""
        if self.sock is None:
            return
        if mask & selectors.EVENT_WRITE:
            if not self.connected and self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.close()
                return
            self.connected = True
            self.flush()
        if mask & selectors.EVENT_READ:
            try:
                data = self.sock.recv(1 << 18)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.input += data
            try:
                self.receive()
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                if self.name:
                    say(f"dropped the connection to {self.name}: {error!r}")
                data = b""
            if not data:
                self.close()

    def receive(self):
        """Hands over whole lines; a first line of HTTP is a readiness probe."""
        if self.name is None and self.input[:1] in (b"G", b"H"):
            if b"\n" in self.input:
                self.loop.probed(self)
            return
        if self.owner is self.loop and self is not self.loop.link:
            raise ValueError("only the coordinator is listened to")
        if len(self.input) > (LONGEST_MESSAGE if self.name else 1 << 20):
            raise ValueError("a message is too long")
        *lines, rest = self.input.split(b"\n")
        self.input = bytearray(rest)
        for line in lines:
            if self.sock is None:
                return
            message = json.loads(line.decode())
            getattr(self.owner, "on_" + message["say"])(self, message)

    def close(self):
        """Ends the conversation."""
        if self.sock is not None:
            self.loop.selector.unregister(self.sock)
            self.sock.close()
            self.sock = None
            self.owner.lost(self)


class Coordinator:
    """Decides, in the supervisor of the first replica, who runs what."""

    def __init__(self, loop):
        self.loop, self.options = loop, loop.options
        self.names = loop.gang
        self.began = self.waits_since = self.said = clock()
        self.members = {}  # name: the link of who said hello last
        self.idle = set()  # names of members that have nothing running
        self.runners = {}  # name: who was told to run the epoch and has not been seen to stop
        self.links = set()
        self.running = self.parted = False
        self.foreign, self.fenced_until = loop.saved.get("foreign", False), None
        self.go_at = None  # when the next epoch may begin, once its cause is known
        self.own_limit = FOREVER  # until when our own command may live without those we have lost
        self.highest = -1
        self.warned_at = -FOREVER
        self.dirty = self.ending = False
        self.forget_events()
        bound = clock() + self.options["lease"] + self.options["fence"]
        for name, (uid, start) in loop.saved.get("runners", {}).items():
            self.runners[name] = {"uid": uid, "start": start, "link": None, "bound": bound}
            self.events.append(("lost", name, uid, start))

    @property
    def state(self):
        """What members remember for us."""
        return self.loop.state

    def forget_events(self):
        """Forgets what happened in the epoch before."""
        self.events = []  # in the order in which they came

    # What members say -----------------------------------------------------------------------------

    def accept(self, mask):
        """Somebody has connected."""
        while True:
            try:
                sock, _ = self.loop.listener.accept()
            except OSError:
                return
            self.adopt(sock)

    def adopt(self, sock):
        """Begins a conversation."""
        link = Link(self.loop, sock, self)
        link.connected = True
        self.links.add(link)
        return link

    def on_hi(self, link, message):
        """A member tells the time. Its hello repeats ours, so that an old one is recognised."""
        link.say("welcome", uid=self.loop.uid, run=self.loop.hash, at=clock(), of=message["at"])

    def on_hello(self, link, message):
        """A member has nothing running, and remembers a state."""
        name, uid = message["name"], message["uid"]
        late = clock() >= float(message["of"]) + self.options["lease"]
        if message["run"] != self.loop.hash or name not in self.names or late:
            return link.close()
        before = self.members.get(name)
        if before is not None and before is not link:
            same = before.uid == uid
            if message["order"] <= before.order if same else message["born"] < before.born:
                return link.close()  # an older connection, or an older Pod of that name
            if same:
                before.close()
        link.name, link.uid = name, uid
        link.order, link.born = message["order"], message["born"]
        self.members[name] = link
        link.answer(message)
        link.say("beat", at=clock(), of=message["at"])
        self.highest = max(self.highest, int(message["ran"]))
        link.ran = int(message["ran"])
        state = message["state"]
        if not self.running and key(state) > key(self.state):
            self.loop.state = dict(state, done=sorted({*state["done"], *self.state["done"]}))
        if set(message["coordinators"]) - {self.loop.uid}:
            self.foreign, self.fenced_until = True, None
            self.loop.save()
        runner = self.runners.get(name)
        if runner is not None:
            self.happened("lost", name, runner["uid"], runner["start"])
            if runner["uid"] == uid:
                del self.runners[name]
        if message["done"]:
            self.on_done(link, message)
        elif name in self.state["done"]:
            link.say("done")
        else:
            self.idle.add(name)
        self.stop_epoch()
        self.begin_if_complete()

    def on_beat(self, link, message):
        """A member is there."""
        link.answer(message)
        link.say("beat", at=clock(), of=message["at"])

    def on_ended(self, link, message):
        """The command of a member has ended by itself."""
        if self.speaks(link, message):
            self.happened("ended", link.name, message["code"], message["permanent"])
            self.stop_epoch()

    def on_leaving(self, link, message):
        """The Pod of a member is deleted, drained or evicted."""
        if self.members.get(link.name) is not link:
            return
        link.leaving = True
        self.idle.discard(link.name)
        self.happened("left", link.name)
        word, now = self.options["checkpoint-signal"], clock()
        if word and self.running and now - self.warned_at >= REAPPEARS:
            self.warned_at = now
            self.tell("notice", signal=word, why=f"{link.name} is about to go")

    def on_stopped(self, link, message):
        """Nothing of the epoch lives any more at a member."""
        if self.speaks(link, message):
            del self.runners[link.name]
            self.stop_epoch()
            if self.members.get(link.name) is link and not getattr(link, "leaving", False):
                self.idle.add(link.name)
            self.begin_if_complete()

    def on_done(self, link, message):
        """The command of a member has ended with 0."""
        if self.members.get(link.name) is not link:
            return
        self.runners.pop(link.name, None)
        self.idle.discard(link.name)
        if link.name not in self.state["done"]:
            self.state["done"].append(link.name)
            self.state["version"] += 1
            self.dirty = True
            self.loop.save()
        link.say("done")
        self.begin_if_complete()

    def speaks(self, link, message):
        """Whether a member speaks of what it was told to run last."""
        runner = self.runners.get(link.name)
        return (
            runner is not None
            and runner["link"] is link
            and (message["epoch"] in (None, self.state["epoch"]))
        )

    def lost(self, link):
        """A connection has ended. Its member may run for as long as it has a lease, no longer."""
        self.links.discard(link)
        if self.members.get(link.name) is link:
            del self.members[link.name]
            self.idle.discard(link.name)
        runner = self.runners.get(link.name)
        if runner is not None and runner["link"] is link:
            runner["link"] = None
            runner["bound"] = link.heard + self.options["lease"] + self.options["fence"]
            self.own_limit = min(self.own_limit, link.lease)
            self.happened("lost", link.name, runner["uid"], runner["start"])
            self.stop_epoch()

    def happened(self, *event):
        """Notes what ends the epoch, or is a consequence of its end."""
        if event not in self.events:
            self.events.append(event)

    # What they are told ---------------------------------------------------------------------------

    def tell(self, word, **values):
        """Tells all members."""
        for link in list(self.members.values()):
            link.say(word, **values)

    def restart(self, why):
        """Begins the next epoch because somebody asks for it."""
        if self.running:
            self.happened("asked", why)
            self.stop_epoch()

    def stop_epoch(self):
        """Has all stop that still run, once something has ended the epoch."""
        if not self.running:
            return
        only_left = all(event[0] == "left" for event in self.events)
        if not self.events or (only_left and not self.left_stopped()):
            return
        self.running, self.waits_since, self.said = False, clock(), clock()
        for name, runner in list(self.runners.items()):
            if runner["link"] is not None:
                limit = self.own_limit if name == self.loop.name else FOREVER
                within = max(0.0, limit - clock())
                runner["link"].say(
                    "stop",
                    epoch=self.state["epoch"],
                    **({} if within == FOREVER else {"within": within}),
                )

    def left_stopped(self):
        """Whether a member whose Pod goes has ended its command."""
        return any(name not in self.runners for kind, name, *_ in self.events if kind == "left")

    def cause(self):
        """What ended the epoch: what happened, whether it counts, whether it is permanent.

        A Pod that went explains whatever else happened, in whatever order that was seen. So does a
        container that was killed: the others lost their connections to it, perhaps before we did.
        """
        members, own = self.members, self.loop.name
        lost = [event[1:] for event in self.events if event[0] == "lost"]
        gone = [name for kind, name, *_ in self.events if kind == "left"]
        gone += [name for name, uid, _ in lost if name in members and members[name].uid != uid]
        if self.highest >= 0 and members[own].ran < 0:
            gone.append(own)
        if gone:
            return f"{gone[0]} was deleted", False, False
        for event in self.events:
            if event[0] == "asked":
                return event[1], True, False
        for name, _, start in lost:
            if name in members and members[name].order[0] > start:
                return f"the container of {name} was killed", True, False
        for kind, name, *rest in self.events:
            if kind == "ended":
                return f"{name} failed first: {exit_code(rest[0])}", True, bool(rest[1])
            if kind == "lost":
                return f"the connection to {name} was lost", True, False
        if self.highest >= 0:
            return "the coordinator was interrupted", True, False
        return "all Pods were made anew" if self.state["epoch"] >= 0 else "", False, False

    def begin_if_complete(self):
        """Begins the next epoch as soon as every member is there and nothing of the last lives."""
        state = self.state
        if self.running or self.ending or self.parted or self.loop.exits is not None:
            return None
        if len(self.idle) < len(self.names) - len(state["done"]):
            return None
        now = clock()
        if self.foreign and self.fenced_until is None:
            # Who left that coordinator has stopped. It has then lost a lease, and its own command.
            # One that nobody left to us may run on until the coordinator has told it to stop.
            wait = self.options["lease"] + self.options["fence"]
            own = self.loop.name
            if any(self.members[name].ran < self.highest for name in self.idle - {own}):
                wait += self.options["lease"] + self.options["stop"]
            self.fenced_until = now + wait
        bounds = [
            FOREVER if runner["link"] is not None else runner["bound"]
            for runner in self.runners.values()
        ]
        wait_until = max([self.fenced_until or 0.0, *bounds])
        if now < wait_until:
            return self.loop.wake(wait_until)
        if self.go_at is None:
            self.go_at = now + self.decide()
        if self.ending:
            return None
        if now < self.go_at:
            return self.loop.wake(self.go_at)
        state["epoch"] = max(state["epoch"], self.highest) + 1
        state["version"] += 1
        self.highest = state["epoch"]
        self.running, self.go_at, self.own_limit = True, None, FOREVER
        self.foreign, self.fenced_until = False, None
        self.forget_events()
        self.runners = {
            name: {
                "uid": self.members[name].uid,
                "start": self.members[name].order[0],
                "link": self.members[name],
                "bound": FOREVER,
            }
            for name in self.idle
        }
        self.idle.clear()
        self.loop.pass_over_notice()
        self.loop.save()
        for runner in list(self.runners.values()):
            if runner["link"] is not None:
                runner["link"].ran = state["epoch"]
                runner["link"].say("run", state=state)

    def decide(self):
        """Counts what has happened; returns for how many seconds the next epoch has to wait."""
        state, limit = self.state, self.options["backoff-limit"]
        why, counted, permanent = self.cause()
        state["cause"] = why
        if not counted:
            return 0.0
        now = time.time()
        if now - state["failed_at"] > self.options["forget"]:
            state["row"] = 0
        if permanent:
            state["cause"] = f"its exit code is not retried: {why}"
            return self.end("failed")
        if 0 <= limit <= state["restarts"]:
            state["cause"] = "backoffLimit %d is reached: %s" % (limit, why)
            return self.end("failed")
        if state["row"] >= 5:
            return self.end("anew")
        state["restarts"] += 1
        state["row"] += 1
        state["failed_at"] = now
        row = state["row"]
        return 0.0 if row <= 2 else min(300.0, self.options["backoff"] * 2 ** (row - 3))

    def end(self, why):
        """Ends the run for all: it has failed, needs other Pods, or goes on without us."""
        self.ending = True
        self.state["over"] = why
        self.state["version"] += 1
        self.loop.save()
        self.tell("end", why=why, state=self.state)
        return 0.0

    # Time -----------------------------------------------------------------------------------------

    def tick(self, now):
        """Once a second."""
        for link in list(self.links):
            if now >= link.lease:
                if link.name == self.loop.name:
                    continue  # its own end of that connection sees the same
                link.close()
        if self.dirty:
            self.dirty = False
            self.tell("state", state=self.state)
        self.begin_if_complete()
        if not self.running and not self.ending and now - self.said >= 60:
            self.said = now
            absent = [n for n in self.names if n not in self.idle and n not in self.state["done"]]
            if absent:
                names = ", ".join(absent[:10]) + (" …" if len(absent) > 10 else "")
                say("waiting for %s (%d s)" % (names, now - self.waits_since))

    def may_exit(self, since):
        """Whether nobody needs us any more; our own command has ended."""
        now, own = clock(), self.loop.name
        if self.ending:
            others = [link for name, link in self.members.items() if name != own]
            return not others or now >= since + self.options["lease"]
        if self.running:
            self.happened("left", own)
            self.stop_epoch()
        if self.runners and now < since + self.options["stop"] + self.options["fence"]:
            return False
        if not self.runners and not self.parted and not self.foreign:
            self.parted = True
            self.tell("part")
        pending = [link for link in self.links if link.output and link.name != own]
        return not pending or now >= since + self.options["lease"]


def key(state):
    """By which the newest state is known."""
    return state["epoch"], state["version"]


class Supervisor:
    """Runs the command of this replica as the coordinator says, in one loop without threads."""

    def __init__(self, options, command):
        self.options, self.command = options, command
        root = options["root"]
        self.scripts = os.path.join(root, "etc/etcompile/scripts")
        self.done_file = os.path.join(root, "etc/etcompile/status/done")
        self.folder = os.path.join(root, "etc/etcompile/run")
        self.hash, self.uid = self.fact("spec-hash"), self.fact("uid")
        self.name = "{}-{}".format(self.fact("role"), self.fact("index"))
        self.gang = [self.name]
        if options["gang"]:
            counts = (part.split(":") for part in options["gang"].split(","))
            self.gang = ["%s-%d" % (role, i) for role, n in counts for i in range(int(n))]
        self.first = options["first"] or self.name

        self.state = {"version": 0, "epoch": -1, "restarts": 0, "row": 0, "failed_at": 0.0}
        self.state.update(cause="", done=[], over="")
        numbers = self.fact("epoch").split()
        if len(numbers) >= 2 and all(number.isdigit() for number in numbers[:2]):
            self.state.update(epoch=int(numbers[0]), restarts=int(numbers[1]))
        self.own = {"ran": -1, "starts": 0, "born": time.time(), "coordinators": []}
        self.own.update(notice="", done=False, released=False)
        self.saved = {}
        try:
            saved = json.loads(read(os.path.join(self.folder, "state.json")))
            self.state.update(saved["state"])
            self.own.update(saved["own"])
            self.saved = saved
        except (ValueError, KeyError, TypeError):
            pass
        self.own["starts"] += 1

        self.processes = Processes()
        self.running = False  # an epoch, whose command may have ended, but not all of its processes
        self.ending = False  # those processes
        self.epoch = self.code = self.kill_at = None
        self.looked_at = 0.0
        self.stopped = False  # the coordinator, not the command itself, ends the epoch
        self.told = self.asked = False  # to stop by the kubelet; a signal that asks for the end
        self.term_at = None
        self.heeded_at = -FOREVER
        self.exits, self.exits_since = None, 0.0
        self.tasks = []

        self.link, self.lease = None, FOREVER
        self.hellos = self.attempts = 0
        self.retry_at = self.next_beat = self.next_tick = 0.0
        self.waits_since = self.said = clock()
        self.tick_every = min(1.0, options["lease"] / 10)
        self.files = None
        self.selector = selectors.DefaultSelector()
        self.coordinator = Coordinator(self) if self.name == self.first else None

    def fact(self, name):
        """What the Pod says of itself."""
        return read(os.path.join(self.scripts, name))

    def finished(self):
        """Whether the run is done."""
        return bool(self.hash) and read(self.done_file) == self.hash

    def save(self):
        """Keeps what this Pod knows for the next container in it."""
        value = {"state": self.state, "own": self.own}
        if self.coordinator is not None:
            runners = self.coordinator.runners.items()
            value["foreign"] = self.coordinator.foreign
            value["runners"] = {name: [one["uid"], one["start"]] for name, one in runners}
        path = os.path.join(self.folder, "state.json")
        try:
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(value, file)
            os.replace(path + ".new", path)
        except OSError:
            say(f"cannot write to {self.folder}: is it mounted, and may this user write there?")
            self.processes.send(signal.SIGKILL, self.processes.living())
            sys.exit(1)

    # The loop -------------------------------------------------------------------------------------

    def main(self):
        """Runs until nothing is left to do; returns the exit code."""
        if self.finished():
            say(f"run {self.hash} is done, not running it again")
            return 0
        if self.state["over"] or self.own["released"]:
            self.say_over()
            return 1
        if self.own["done"]:
            return 0
        self.save()
        wake, waker = socket.socketpair()
        for end in (wake, waker):
            end.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self.selector.register(wake, selectors.EVENT_READ, lambda mask: wake.recv(4096))
        try:
            self.listen()
        except OSError as error:
            say("cannot listen on port %d: %s" % (self.options["port"], error.strerror))
            return 1
        while True:
            now = clock()
            if ARRIVED or (self.exits is not None and self.may_exit()):
                timeout = 0.0
            else:
                timeout = max(0.0, min(self.due, self.next_tick) - now) if self.next_tick else 0.0
            events = self.selector.select(timeout)
            now, self.due = clock(), FOREVER
            if self.running and now >= self.lease:
                self.abandon()
            if now >= self.next_tick:
                self.next_tick = now + self.tick_every
                self.tick(now)
            for chosen, mask in events:
                chosen.data(mask)
            while ARRIVED:
                number = ARRIVED.pop(0)
                if number != signal.SIGCHLD:
                    self.signalled(number)
                    continue
                code = self.processes.reap()
                if code is not None:
                    self.command_ended(code)
            self.turn(clock())
            if self.exits is not None and self.may_exit():
                if not self.processes.init:
                    self.processes.send(signal.SIGKILL, self.processes.living())
                return self.exits

    def listen(self):
        """Listens for probes and, as the coordinator, for members."""
        host = self.options["bind"]
        try:
            self.listener = socket.socket(socket.AF_INET6 if not host else socket.AF_INET)
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if not host:
                self.listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self.listener.bind((host or "::", self.options["port"]))
        except OSError:
            if host:
                raise
            self.listener = socket.socket()
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind(("0.0.0.0", self.options["port"]))
        self.listener.listen(4096)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        if self.coordinator is not None:
            self.files = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files[1], self.files[1]))

    def accept(self, mask):
        """Somebody has connected: a probe, or a member."""
        for _ in range(256):
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.coordinator is not None:
                self.coordinator.adopt(sock)
            else:
                Link(self, sock, self).connected = True

    def probed(self, link):
        """A kubelet asks whether the command runs."""
        ready = self.processes.leader is not None and not self.ending
        words = "200 OK" if ready else "503 Service Unavailable"
        if link.input.split()[1:2] != [b"/ready"]:
            words = "404 Not Found"
        text = f"HTTP/1.1 {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        link.output += text.encode()
        link.flush()
        link.close()

    def wake(self, at):
        """Has the loop turn at that time at the latest."""
        self.due = min(self.due, at)

    def tick(self, now):
        """Once a second: files, leases, and lines for who waits."""
        if self.coordinator is not None:
            self.coordinator.tick(now)
            if self.running and not self.ending:
                self.read_notice()
        for entry in list(self.selector.get_map().values()):
            link = getattr(entry.data, "__self__", None)
            strange = isinstance(link, Link) and link.owner is self and link is not self.link
            if strange and now >= link.lease:
                link.close()  # a probe that says nothing
        if self.exits is not None:
            return
        if (self.options["serves"] or not self.running) and self.finished():
            say(f"run {self.hash} is done, ending")
            self.told = True
            if self.running:
                self.code, self.stopped = 0, True
                self.end(self.options["stop"])
            else:
                self.stop_with(self.code or 0)
        elif self.link is None and not self.running and now - self.said >= 60:
            self.said = now
            host = "%s:%d" % (self.options["coordinator"], self.options["port"])
            say("waiting for the coordinator %s (%d s)" % (host, now - self.waits_since))

    def turn(self, now):
        """What is due."""
        for task in [task for task in self.tasks if task[0] <= now]:
            self.tasks.remove(task)
            self.work(task[1])
        for at, _ in self.tasks:
            self.wake(at)
        if self.term_at is not None and now >= self.term_at:
            self.term_at = None
            self.processes.send(
                signal.SIGTERM, [self.processes.leader or 0][: bool(self.processes.leader)]
            )
        elif self.term_at is not None:
            self.wake(self.term_at)
        if self.ending:
            self.go_on_ending(now)
        if self.running and self.lease < FOREVER:
            self.wake(self.lease)
        if self.link is not None:
            if now >= self.link.lease and not self.running:
                self.link.close()
            elif now >= self.next_beat and self.link.name:
                self.next_beat = now + self.options["beat"]
                self.link.say("beat", at=now, of=self.link.theirs)
            if self.link is not None:
                self.wake(self.next_beat if self.link.name else self.link.lease)
        elif not self.running and self.exits is None and not self.own["released"]:
            self.connect(now)

    def work(self, task):
        """Goes on with what waits in between."""
        for seconds in task:
            self.tasks.append((clock() + seconds, task))
            return

    # The coordinator ------------------------------------------------------------------------------

    def connect(self, now):
        """Connects to the coordinator; nothing of the command lives."""
        if now < self.retry_at:
            return self.wake(self.retry_at)
        self.attempts += 1
        self.retry_at = now + min(1.0, 0.05 * 1.5 ** min(self.attempts, 9))
        self.wake(self.retry_at)
        if self.coordinator is not None:
            ours, theirs = socket.socketpair()
            self.coordinator.adopt(theirs)
            self.link = Link(self, ours, self)
            self.link.connected = True
        else:
            host, port = self.options["coordinator"], self.options["port"]
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                family, _, _, _, address = found[self.attempts % len(found)]
                sock = socket.socket(family, socket.SOCK_STREAM)
                if self.options["bind"]:
                    sock.bind((self.options["bind"], 0))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setblocking(False)
                sock.connect_ex(address)
            except OSError:
                return None
            self.link = Link(self, sock, self)
        self.link.say("hi", at=clock())
        self.link.flush()

    def lost(self, link):
        """The connection to the coordinator has ended: so does the command, within its lease."""
        if link is not self.link:
            return
        self.link = None
        self.retry_at = max(self.retry_at, clock() + (0.05 if link.name else 0.0))
        self.waits_since = self.said = clock()
        if self.running and not self.own["released"]:
            self.stopped = True
            self.end(self.options["stop"])

    def abandon(self):
        """Our lease is over: others may soon run the next epoch."""
        say(
            "no word from the coordinator for {:g} s: the command is killed".format(
                self.options["lease"]
            )
        )
        self.stopped, self.lease = True, FOREVER
        if self.link is not None:
            self.link.close()
        self.end(0.0)
        self.kill_at = 0.0

    def on_welcome(self, link, message):
        """The coordinator has told the time."""
        if link is not self.link or message["run"] != self.hash or self.running:
            return link.close()
        former = list(self.own["coordinators"])
        self.own["coordinators"] = sorted({*former, message["uid"]})
        self.save()
        self.hellos += 1
        link.name, link.uid = self.first, message["uid"]
        link.theirs = message["at"]
        link.lease = clock() + self.options["lease"]
        self.attempts = 0
        self.next_beat = clock() + self.options["beat"]
        link.say(
            "hello",
            name=self.name,
            uid=self.uid,
            run=self.hash,
            born=self.own["born"],
            order=[self.own["starts"], self.hellos],
            ran=self.own["ran"],
            done=self.own["done"],
            coordinators=former,
            state=self.state,
            at=clock(),
            of=message["at"],
        )

    def on_beat(self, link, message):
        """The coordinator has heard us."""
        link.theirs = message["at"]
        link.answer(message)
        # It has our hello, so it knows of those before it, and waits until they have given up.
        if self.own["coordinators"] != [link.uid]:
            self.own["coordinators"] = [link.uid]
            self.save()
        if self.lease < FOREVER:
            self.lease = link.lease

    def on_state(self, link, message):
        """What the coordinator wants us to remember."""
        self.remember(message["state"])
        self.save()

    def remember(self, state):
        """Keeps the state; that of the coordinator's own member is the coordinator's."""
        if self.coordinator is None:
            self.state = state

    def on_run(self, link, message):
        """The coordinator begins an epoch."""
        if self.told or self.exits is not None or self.own["done"]:
            return link.say("stopped", epoch=None)  # we have said why
        epoch = message["state"]["epoch"]
        if self.running or epoch <= self.own["ran"] or clock() >= link.lease:
            return link.close()
        self.remember(message["state"])
        self.own["ran"] = epoch
        self.save()
        self.epoch, self.code, self.running = epoch, None, True
        self.ending = self.stopped = self.asked = False
        self.tasks.clear()
        self.lease = link.lease if len(self.gang) > 1 else FOREVER
        if self.state["cause"]:
            say("epoch %d begins %s: %s" % (epoch, self.counts(), self.state["cause"]))
        command = self.command
        if self.options["gate"] and self.state["cause"]:
            command = ["sh", "-c", 'sh "$0" && exec "$@"', self.options["gate"], *command]
        try:
            self.processes.start(command, self.environment(), self.files)
        except OSError as error:
            say(f"{command[0]}: {error.strerror}")
            self.command_ended(127 if isinstance(error, FileNotFoundError) else 126)

    def environment(self):
        """What the command gets: our own variables as they came, since Python adds to them."""
        with open("/proc/self/environ", "rb") as file:
            pairs = [line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line]
        return {**dict(pairs), b"ETCOMPILE_EPOCH": str(self.epoch).encode()}

    def on_stop(self, link, message):
        """The coordinator ends the epoch."""
        if not self.running:
            link.say("stopped", epoch=message["epoch"])
        elif message["epoch"] == self.epoch:
            if self.told:
                self.term_at = clock() if self.term_at is not None else None
            else:
                self.stopped = self.stopped or self.code is None
                self.end(min(self.options["stop"], message.get("within", FOREVER)))

    def on_notice(self, link, message):
        """All commands get a signal."""
        if self.running and not self.ending and not self.told:
            self.notify(message["signal"], message["why"])

    def on_part(self, link, message):
        """The coordinator goes, and has seen everybody stop."""
        self.own["coordinators"] = []
        self.save()

    def on_done(self, link, message):
        """The coordinator knows that our command is done."""
        if self.own["done"] and not self.running:
            self.leave(0)

    def on_end(self, link, message):
        """The run ends for all of us, or goes on without a coordinator."""
        if message["why"] == "released":
            self.own["released"], self.lease = True, FOREVER
            self.save()
            if not self.running:
                self.leave(0 if self.own["done"] else self.code or 143)
            link.close()
        else:
            self.remember(message["state"])
            self.save()
            self.say_over()
            self.leave(self.code or 143)

    def counts(self):
        """The counts in a line of the log."""
        return "(restarts: %d, in a row: %d)" % (self.state["restarts"], self.state["row"])

    def say_over(self):
        """Says how the run ended."""
        words = {"failed": "is the last", "anew": "needs new Pods"}.get(self.state["over"])
        if words:
            facts = (self.state["epoch"], words, self.counts(), self.state["cause"])
            say("epoch %d %s %s: %s" % facts)
        else:
            say("the first replica has finished: the command is not run again")

    # The command ----------------------------------------------------------------------------------

    def command_ended(self, code):
        """The command has ended; what it has left behind ends with it."""
        if self.stopped:
            return
        self.code = code
        if self.told or self.asked or self.own["released"]:
            limit = FOREVER if self.told else self.options["stop"]
        else:
            limit = self.options["stop"]
            if code:
                say("the command ended in epoch %d: %s" % (self.epoch, exit_code(code)))
                kind = self.options["permanent"]
                permanent = kind == "all" or (kind == "exit-code" and code <= 127)
                if self.link is not None:
                    self.link.say("ended", epoch=self.epoch, code=code, permanent=permanent)
            else:
                self.own["done"] = True
        self.end(limit)

    def end(self, seconds):
        """Ends every process of the epoch: with TERM, and after so many seconds with KILL."""
        at = clock() + seconds
        if self.ending:
            self.kill_at = min(self.kill_at, at)
            return
        self.ending, self.kill_at, self.looked_at, self.killing = True, at, 0.0, False
        self.limit = seconds
        if seconds > 0:
            self.processes.send(signal.SIGTERM, self.processes.living())
        self.wake(0.0)

    def go_on_ending(self, now):
        """Looks what still lives."""
        if now < self.looked_at + 0.02:
            return self.wake(self.looked_at + 0.02)
        self.looked_at = now
        living = self.processes.living()
        if living or self.processes.leader or self.processes.any_child():
            if now >= self.kill_at:
                if not self.killing and self.limit > 0:
                    say(f"what has not ended after {self.limit:g} s is killed")
                self.killing = True
                self.processes.send(signal.SIGKILL, living)
            return self.wake(now + 0.1 if not self.killing else now + 0.02)
        self.running = self.ending = False
        self.lease = FOREVER
        if self.told or self.asked or self.own["released"]:
            self.stop_with(self.code)
        elif self.own["done"]:
            self.save()
            if self.coordinator is not None:
                self.coordinator.end("released")
                self.leave(0)
            elif self.link is not None:
                self.link.say("done")
        elif self.link is not None:
            self.link.say("stopped", epoch=self.epoch)
        self.turn(now)

    def stop_with(self, code):
        """The container ends, because somebody wants that."""
        if self.link is not None:
            self.link.say("leaving")
            self.link.say("stopped", epoch=None)  # and nothing will run here
        self.leave(143 if code is None else code)

    def leave(self, code):
        """Exits as soon as all has been said."""
        if self.exits is None:
            self.exits, self.exits_since = code, clock()
            self.wake(0.0)

    def may_exit(self):
        """Whether all has been said."""
        late = clock() >= self.exits_since + self.options["lease"]
        if self.link is not None and self.link.output and not late:
            self.wake(clock() + 0.05)
            return False
        if self.coordinator is not None and not self.coordinator.may_exit(self.exits_since):
            self.wake(clock() + 0.05)
            return False
        return True

    def signalled(self, number):
        """Passes a signal on to the command."""
        leader = [self.processes.leader] if self.processes.leader else []
        if number != signal.SIGTERM:
            self.asked = self.asked or (number in (signal.SIGINT, signal.SIGQUIT) and bool(leader))
            if not leader and not self.running and number in (signal.SIGINT, signal.SIGQUIT):
                self.stop_with(self.code or 128 + number)
            return self.processes.send(number, leader)
        first, self.told = not self.told, True
        if first and self.link is not None:
            self.link.say("leaving")
        if not self.running:
            return self.stop_with(self.code)
        word = self.options["checkpoint-signal"]
        if first and word and leader and not self.ending:
            recently = clock() - self.heeded_at < 60
            if recently or self.notify(word, "this Pod is to stop"):
                self.term_at = clock() + self.options["warn"]
                return self.wake(self.term_at)
        if self.term_at is None:
            self.processes.send(number, leader)

    # Notices --------------------------------------------------------------------------------------

    def read_notice(self):
        """A notice that is new goes to all members."""
        name, word, _, why = (self.fact("notice").split(None, 3) + [""] * 4)[:4]
        if not name or name == self.own["notice"]:
            return
        self.own["notice"] = name
        self.save()
        if word == "RESTART":
            self.coordinator.restart(why or "somebody asks for it")
        else:
            why = why or "the watcher asks for a checkpoint"
            self.coordinator.tell("notice", signal=word, why=why)

    def pass_over_notice(self):
        """A notice from before an epoch is not about it."""
        self.own["notice"] = [*self.fact("notice").split(), ""][0]

    def notify(self, word, why):
        """Tells the command what a notice says; false if nobody handles its signal."""
        ask, _, name = word.partition("+")
        if ask == "REPORT":
            self.work(self.report(name, why))
            return True
        if word not in ("HUP", "USR1", "USR2", "ALRM", "WINCH"):
            return False
        handlers = self.processes.handlers(word)
        if not handlers:
            say(f"{why}: no process handles signal {word}")
            return False
        if word == self.options["checkpoint-signal"]:
            self.heeded_at = clock()
        say(f"{why}: signal {word} is passed on")
        self.processes.send(getattr(signal, "SIG" + word), handlers)
        return True

    def report(self, name, why):
        """Says what each process does; those that handle a signal write their stacks first."""
        if name in ("HUP", "USR1", "USR2", "ALRM", "WINCH"):
            handlers = self.processes.handlers(name)
            if not handlers:
                say(f"no process handles signal {name}, which asks for its stack")
            for pid in handlers[:16]:  # one after the other: their lines would mix
                say("process %d is sent %s for its stack" % (pid, name))
                self.processes.send(getattr(signal, "SIG" + name), [pid])
                yield 0.2
        say(f"{why}: these processes run")
        for pid, facts in self.processes.living().items():
            if facts[1] == "D":  # for a moment, whoever reads a file is in it too
                yield 1.0
                facts = self.processes.living().get(pid)  # noqa: PLW2901
            if facts:
                say("process %d %s %s" % (pid, facts[1], facts[0]))


def main():
    """The program."""
    try:
        options, command = parse(sys.argv[1:])
    except (ValueError, IndexError):
        command = []
    if not command:
        say(USAGE)
        return 2
    return Supervisor(options, command).main()


if __name__ == "__main__":
    sys.exit(main())
