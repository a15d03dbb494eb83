"""Runs the command after `--`, and runs it again when its gang begins a new epoch.

    supervise.py OPTIONS -- COMMAND...

Each replica of a gang has a supervisor. That of the first replica coordinates. The members, itself
included, connect to it, and run their commands only in epochs that it has announced. No process of
an old epoch ever meets one of a new epoch:

1. A member sends `hello` or `stopped` only when no process of its command lives.
2. The coordinator sends `run` when each member has sent one of them on a connection that is still
   open, and the waits of rules 4 and 5 are over.
3. Each message carries its sender's clock and repeats the newest clock of its receiver. Each end of
   a connection has a lease: LEASE seconds from its own clock as it was last repeated. Delays in the
   network cannot extend it. Whoever's lease ends kills its command; if a connection breaks earlier,
   the member ends its command within the lease. A coordinator that loses a member sends `stop`.
4. A lost member that returns in the same Pod has no old processes: a kubelet starts a container
   only when the previous one has ended. If another Pod takes the name, the coordinator waits until
   LEASE + FENCE after the last message of the old Pod, whose lease is over by then.
5. A hello names the coordinator that last sent `run` to the member, and all it has joined since. If
   one is in another Pod, this one waits 2 LEASE + STOP + FENCE after all have joined: all had left
   the old one, which therefore loses a lease within LEASE and sends `stop`. Who is still connected
   to it obeys within STOP, or its lease ends. A coordinator whose members have all stopped sends
   `part` before it exits, and they forget it.

The state (epoch, counts and so on) goes out with `run`, stays in a file in each Pod, and returns
with `hello`. A new coordinator continues from the newest.
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

PENDING = []  # signals
FORWARDED = ("TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "ALRM", "WINCH", "CONT")
# Before anything else: process 1 does not get signals that it does not handle.
for _name in (*FORWARDED, "CHLD"):
    signal.signal(getattr(signal, "SIG" + _name), lambda number, frame: PENDING.append(number))

import json
import re
import resource
import selectors
import socket
import time

FOREVER = float("inf")
NOTICE_SIGNALS = ("HUP", "USR1", "USR2", "ALRM", "WINCH")
# Why an epoch ended. A cause explains those of later kinds, in whatever order they were noticed.
DELETED, REQUESTED, KILLED, FAILED = range(4)
OPTIONS = {"gang": "", "coordinator": "", "first": "", "port": 29999, "stop": 10.0, "serves": False}
OPTIONS.update({"backoff-limit": -1, "permanent": "", "gate": ""})
OPTIONS.update({"checkpoint-signal": "", "warn": 15.0})
OPTIONS.update({"root": "/", "bind": "", "beat": 3.0, "lease": 10.0, "fence": 5.0})  # for tests
OPTIONS.update({"backoff": 1.0, "forget": 600.0})


def parse(arguments):
    """Splits the command line into options and the command."""
    options, rest = dict(OPTIONS), list(arguments)
    while rest and rest[0] != "--":
        name, equals, value = rest.pop(0)[2:].partition("=")
        if OPTIONS[name] is False:
            options[name] = True
        else:
            options[name] = type(OPTIONS[name])(value if equals else rest.pop(0))
    return options, rest[1:]


def clock():
    """Seconds, including those in which the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def log(text):
    """Writes a line to the log."""
    try:
        os.write(2, ("etcompile: %s\n" % text).encode("utf-8", "replace"))
    except OSError:
        pass


def read(path):
    """The text of a file, or nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def in_words(code):
    """An exit code in words."""
    try:
        return "exit code %d (%s)" % (code, signal.Signals(code - 128).name)
    except ValueError:
        return "exit code %d" % code


def processes():
    """The processes that descend from us; `kubectl exec` starts others."""
    children, parents = {}, [os.getpid()]
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        end = read("/proc/%d/stat" % pid).rpartition(") ")[2]
        if end:
            children.setdefault(int(end.split()[1]), []).append(pid)
    for parent in parents:
        parents += children.get(parent, ())
    return parents[1:]


def send_signal(number, pids):
    """Sends a signal to those processes that still live."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            pass


class Peer:
    """One end of a connection, with its lease. A message is a line of JSON."""

    def __init__(self, supervisor, owner, sock=None, lease=0.0):
        self.supervisor, self.owner, self.sock, self.input = supervisor, owner, sock, b""
        self.name = self.uid = self.order = self.version = self.peer_clock = None
        self.runs = self.leaving = False
        self.probe = None  # what a kubelet asks for
        self.last_seen = clock()
        self.lease = self.last_seen + lease
        if sock is not None:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            supervisor.selector.register(sock, selectors.EVENT_READ, self.receive)
            supervisor.peers.add(self)

    def send(self, word, **values):
        """Sends a message, unless the connection is closed."""
        values.update(say=word, at=clock(), of=self.peer_clock)
        try:
            if self.sock is not None:
                self.sock.sendall(json.dumps(values).encode() + b"\n")
        except BlockingIOError:
            self.lease = 0.0  # the other side has not read for long
        except OSError:
            pass  # there may be messages to read before the end

    def receive(self):
        """Receives messages. One that arrives after the end of the lease is too late."""
        try:
            data = self.sock.recv(1 << 18) if self.sock is not None else b""
        except OSError:
            data = b""
        *lines, self.input = (self.input + data).split(b"\n")
        try:
            for line in lines:
                if self.name is None and line.startswith((b"GET ", b"HEAD ")):
                    self.probe = line.split()[1]
                    # Waiting for the other replicas is no failure: the answer waits as well, for
                    # as long as the kubelet does.
                    self.lease = FOREVER
                    return self.answer() if self.supervisor.pod["ran"] >= 0 else None
                message = json.loads(line.decode())
                self.peer_clock, self.last_seen = float(message["at"]), clock()
                if message["of"] is not None:
                    lease = min(message["of"], self.last_seen) + self.supervisor.options["lease"]
                    self.lease = max(self.lease, lease)
                if self.last_seen >= self.lease:
                    self.close()
                elif self.sock is not None:
                    if self.name is None and message["say"] not in ("beat", "hello"):
                        raise ValueError("no hello")
                    getattr(self.owner, "on_" + message["say"])(self, message)
            if len(self.input) > 1 << 20:
                raise ValueError("a message is too long")
        except Exception as error:
            if self.name:
                log("dropped the connection to %s: %r" % (self.name, error))
            data = b""
        if not data:
            self.close()

    def answer(self):
        """Answers a probe."""
        ready = self.supervisor.pid is not None and not self.supervisor.ending
        status = b"200 OK" if ready else b"503 Service Unavailable"
        status = status if self.probe == b"/ready" else b"404 Not Found"
        try:
            self.sock.send(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
        except OSError:
            pass
        self.close()

    def close(self):
        """Closes the connection."""
        if self.sock is not None:
            self.supervisor.selector.unregister(self.sock)
            self.supervisor.peers.discard(self)
            self.sock.close()
            self.sock = None
            if self.owner is not None:
                self.owner.lost(self)


class Coordinator:
    """Decides, in the supervisor of the first replica, who runs what."""

    def __init__(self, supervisor):
        self.supervisor, self.options = supervisor, supervisor.options
        self.members = {}  # by name, the peer of the newest hello; it may be closed
        self.idle = set()  # names of connected members of whose commands nothing lives
        self.causes = []  # why the epoch ended
        self.highest = -1  # epoch that anybody has run
        self.running = self.other_coordinator = False
        self.fence_until = 0.0  # rules 4 and 5
        self.run_at = None  # when the next epoch may begin; None until its cause is known
        self.waits_since = self.last_log = clock()
        self.last_checkpoint = -FOREVER
        for name, (uid, order) in supervisor.pod["runners"].items():  # of the container before
            peer = self.members[name] = Peer(supervisor, self)
            peer.name, peer.uid, peer.order = name, uid, order
            peer.runs = name not in supervisor.state["done"]

    def on_beat(self, peer, message):
        """A member is alive. It gets the state if that has changed."""
        state, news = self.supervisor.state, {}
        if peer.name and peer.version != state["version"]:
            peer.version, news = state["version"], {"state": state}
        peer.send("beat", uid=self.supervisor.uid, **news)

    def on_hello(self, peer, message):
        """A member has joined; nothing of its command lives."""
        name, uid, order = message["name"], message["uid"], message["order"]
        if message["run"] != self.supervisor.hash or name not in self.supervisor.gang:
            return peer.close()
        before = self.members.get(name) or Peer(self.supervisor, self)
        same = before.uid == uid
        if (same or before.sock) and order <= before.order:
            return peer.close()  # an older connection, or an older Pod of that name
        before.close()
        if before.runs and not same:
            self.causes.append((DELETED, "%s was deleted" % name))
            fence = self.options["lease"] + self.options["fence"]
            self.fence_until = max(self.fence_until, before.last_seen + fence)
        elif before.runs and order[1] > before.order[1]:
            self.causes.append((KILLED, "the container of %s was killed" % name))
        peer.name, peer.uid, peer.order, self.members[name] = name, uid, order, peer
        self.highest = max(self.highest, message["ran"])
        if set(message["coordinators"]) - {self.supervisor.uid}:
            self.other_coordinator = True
        theirs, ours = message["state"], self.supervisor.state
        newer = (theirs["epoch"], theirs["version"]) > (ours["epoch"], ours["version"])
        if newer and not self.running:
            self.supervisor.state = dict(theirs, done=sorted({*theirs["done"], *ours["done"]}))
        done = message["done"] or name in self.supervisor.state["done"]
        (self.on_done if done else self.on_stopped)(peer, message)

    def on_ended(self, peer, message):
        """The command of a member has failed."""
        why = "%s failed first: %s" % (peer.name, in_words(message["code"]))
        self.causes.append((FAILED, why, message["permanent"]))
        self.stop_epoch()

    def on_leaving(self, peer, message):
        """The kubelet stops the Pod of a member. The epoch ends when its command has ended."""
        if peer.name in self.supervisor.state["done"]:
            return
        peer.leaving = True
        self.idle.discard(peer.name)
        self.causes.append((DELETED, "%s was deleted" % peer.name))
        word = self.options["checkpoint-signal"]
        if word and self.running and clock() >= self.last_checkpoint + 30:
            self.last_checkpoint = clock()
            self.send_all("notice", signal=word, why="%s is about to go" % peer.name)

    def on_stopped(self, peer, message):
        """Nothing of a member's command lives any more."""
        peer.runs = False
        if peer.name in self.supervisor.state["done"]:
            return  # it exits, and the others go on
        if not peer.leaving:
            self.idle.add(peer.name)
        self.stop_epoch()
        self.advance()

    def on_done(self, peer, message):
        """The command of a member has ended with 0."""
        peer.runs = False
        state = self.supervisor.state
        if peer.name not in state["done"]:
            state["done"].append(peer.name)
            state["version"] += 1
            self.supervisor.save()
        peer.send("end", state=state)
        self.advance()

    def lost(self, peer):
        """A connection is lost. Its member runs until its lease is over, and no longer."""
        self.idle.discard(peer.name)
        if peer.name and peer.runs:
            self.causes.append((FAILED, "the connection to %s was lost" % peer.name))
            if clock() >= peer.lease and self.supervisor.running:
                self.supervisor.end(0.0)
            self.stop_epoch()
            self.send_all("stop", hurry=True)  # another coordinator may have that member now

    def send_all(self, word, **values):
        """Sends a message to all members."""
        for peer in list(self.members.values()):
            peer.send(word, **values)

    def stop_epoch(self):
        """Has all members stop, and those Pods that the kubelet stops take as long as it allows."""
        if self.running:
            self.running, self.waits_since, self.last_log = False, clock(), clock()
            self.send_all("stop", hurry=False)

    def advance(self):
        """Begins the next epoch once everybody is here and nothing of the last one lives."""
        state, now = self.supervisor.state, clock()
        missing = len(self.supervisor.gang) - len(state["done"]) - len(self.idle)
        if self.running or state["over"] or self.supervisor.exit_code is not None or missing > 0:
            return
        if self.other_coordinator:
            self.other_coordinator = False
            fence = 2 * self.options["lease"] + self.options["stop"] + self.options["fence"]
            self.fence_until = max(self.fence_until, now + fence)
        if self.run_at is None and now >= self.fence_until:
            self.run_at = now + self.count_failure()
        due = max(self.run_at or 0.0, self.fence_until)
        if now < due:
            self.supervisor.next_tick = min(self.supervisor.next_tick, due)
        if state["over"] or now < due:
            return
        state["epoch"] = self.highest = max(state["epoch"], self.highest) + 1
        state["version"] += 1
        self.running, self.run_at, self.causes = True, None, []
        runners = [self.members[name] for name in sorted(self.idle)]
        self.idle.clear()
        for peer in runners:
            peer.runs, peer.version = True, state["version"]
        self.supervisor.pod["runners"] = {peer.name: [peer.uid, peer.order] for peer in runners}
        self.supervisor.save()
        for peer in runners:
            peer.send("run", state=state)

    def count_failure(self):
        """Determines the cause, and ends the run at a limit; returns the seconds of back-off."""
        state, limit = self.supervisor.state, self.options["backoff-limit"]
        if self.highest < 0:
            self.causes = [(DELETED, "all Pods were made anew" if state["epoch"] >= 0 else "")]
        elif self.supervisor.pod["ran"] < 0:
            self.causes.append((DELETED, "%s was deleted" % self.supervisor.name))
        elif not self.causes:
            self.causes.append((KILLED, "the container of %s was killed" % self.supervisor.name))
        kind, why, *permanent = min(self.causes, key=lambda cause: cause[0])
        state["cause"] = why
        # Members that are done would be missed by the others.
        if kind == DELETED:
            return self.end("anew", why) if state["done"] else 0.0
        if time.time() > state["failed_at"] + self.options["forget"]:
            state["row"] = 0
        if any(permanent):
            return self.end("failed", "its exit code is not retried: " + why)
        if 0 <= limit <= state["restarts"]:
            return self.end("failed", "backoffLimit %d is reached: %s" % (limit, why))
        if state["row"] >= 5 or state["done"]:
            return self.end("anew", why)
        row = state["row"] + 1
        state.update(restarts=state["restarts"] + 1, row=row, failed_at=time.time())
        return 0.0 if row <= 2 else min(300.0, self.options["backoff"] * 2 ** (row - 3))

    def end(self, over, cause):
        """Ends the run of all members; those that are released run on without us."""
        state = self.supervisor.state
        state.update(over=over, cause=cause, version=state["version"] + 1)
        self.supervisor.save()
        self.send_all("end", state=state)
        return 0.0

    def tick(self, now):
        """Once a second: passes a notice on, waits for fences, and logs who is missing."""
        notice = self.supervisor.fact("notice").split(None, 3)
        if notice and notice[0] != self.supervisor.pod["notice"]:
            self.supervisor.pod["notice"] = notice[0]
            self.supervisor.save()
            word, _, why = (*notice[1:], "", "", "")[:3]
            if self.running and word == "RESTART":
                self.causes.append((REQUESTED, why or "a restart was requested"))
                self.stop_epoch()
            elif self.running:
                why = why or "the watcher asks for a checkpoint"
                self.send_all("notice", signal=word, why=why)
        self.advance()
        present = {*self.idle, *self.supervisor.state["done"]}
        absent = [name for name in self.supervisor.gang if name not in present]
        if absent and not self.running and now >= self.last_log + 60:
            self.last_log = now
            names = ", ".join(absent[:10]) + (" …" if len(absent) > 10 else "")
            log("waiting for %s (%d s)" % (names, now - self.waits_since))

    def may_exit(self, since):
        """Whether no member needs this replica; sends `part` if all have stopped."""
        peers = self.members.values()
        if self.supervisor.state["over"]:
            others = [p for p in peers if p.sock and p.name != self.supervisor.name]
            return not others or clock() >= since + self.options["lease"]
        if not any(peer.runs for peer in peers):
            if not self.other_coordinator and clock() >= self.fence_until:
                self.send_all("part")
            return True
        return not any(peer.runs and peer.sock for peer in peers)


class Supervisor:
    """Runs the command of this replica as the coordinator says, in one loop without threads."""

    def __init__(self, options, command):
        self.options, self.command = options, command
        self.folder = os.path.join(options["root"], "etc/etcompile")
        self.hash, self.uid = self.fact("spec-hash"), self.fact("uid")
        self.name = "%s-%s" % (self.fact("role"), self.fact("index") or "0")
        counts = (part.split(":") for part in options["gang"].split(",") if part)
        self.gang = ["%s-%d" % (role, i) for role, count in counts for i in range(int(count))]
        self.gang = self.gang or [self.name]

        epoch, restarts = map(int, (self.fact("epoch") or "-1 0").split()[:2])
        self.state = {"version": 0, "epoch": epoch, "restarts": restarts, "row": 0, "done": []}
        self.state.update(failed_at=0.0, cause="", over="")
        self.pod = {"born": time.time(), "starts": 0, "hellos": 0, "ran": -1, "done": False}
        self.pod.update(coordinators=[], runners={}, notice="")
        try:
            saved = json.loads(read(self.folder + "/run/state.json"))
            self.state.update(saved["state"])
            self.pod.update(saved["pod"])
        except (ValueError, KeyError, TypeError):
            pass
        self.pod["starts"] += 1

        self.pid = self.code = None  # of the command; the code is None if it was stopped
        self.running = False  # from `run` until nothing of the command lives
        self.ending = False  # all processes of the command
        self.stopping = False  # the kubelet stops this Pod
        self.kill_at, self.term_at, self.patience = FOREVER, FOREVER, 0.0
        self.exit_code, self.exits_since = None, 0.0
        self.selector, self.peers = selectors.DefaultSelector(), set()
        self.link = Peer(self, None)  # to the coordinator
        self.retry_at, self.retry_after, self.next_beat, self.next_tick = 0.0, 0.05, 0.0, 0.0
        self.waits_since = self.last_log = clock()
        self.last_checkpoint = -FOREVER
        leads = self.name == (options["first"] or self.name)
        self.coordinator = Coordinator(self) if leads else None

    def fact(self, name):
        """A file in which the Pod describes itself."""
        return read("%s/scripts/%s" % (self.folder, name))

    def finished(self):
        """Whether the run is done."""
        return bool(self.hash) and self.hash == read(self.folder + "/status/done")

    def save(self):
        """Keeps what the next container of this Pod has to know."""
        path = self.folder + "/run"
        try:
            with open(path + "/state.json.new", "w", encoding="utf-8") as file:
                json.dump({"state": self.state, "pod": self.pod}, file)
            os.replace(path + "/state.json.new", path + "/state.json")
        except OSError:
            log("cannot write to %s: is it mounted, and may this user write there?" % path)
            send_signal(signal.SIGKILL, processes())
            sys.exit(1)

    def main(self):
        """Runs until nothing is left to do; returns the exit code."""
        if self.finished():
            log("run %s is done, not running it again" % self.hash)
            return 0
        if self.state["over"]:
            return 0 if self.pod["done"] else self.log_epoch() or 1
        self.save()
        if os.getpid() != 1:  # orphans become our children, as they do under process 1
            import ctypes

            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        receiver, waker = socket.socketpair()
        receiver.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        self.selector.register(receiver, selectors.EVENT_READ, lambda: receiver.recv(4096))
        both = not self.options["bind"] and socket.has_dualstack_ipv6()
        place = (self.options["bind"], self.options["port"])
        family = socket.AF_INET6 if both else socket.AF_INET
        try:
            server = socket.create_server(place, family=family, backlog=4096, dualstack_ipv6=both)
        except OSError as error:
            log("cannot listen on port %d: %s" % (place[1], os.strerror(error.errno)))
            return 1
        server.setblocking(False)
        self.selector.register(server, selectors.EVENT_READ, lambda: self.accept(server))
        if len(self.gang) > 500:  # the command inherits this
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        while True:
            due = min(self.next_tick, self.kill_at, self.retry_at)
            events = self.selector.select(0.0 if PENDING else max(0.0, due - clock()))
            # Leases first: this machine may have been frozen before it reads what has arrived.
            if clock() >= self.next_tick:
                self.tick(clock())
            for key, _ in events:
                key.data()
            while PENDING:
                self.handle(PENDING.pop(0))
            if self.ending:
                self.end_processes(clock())
            if clock() >= self.retry_at:
                self.connect(clock())
            lead = self.coordinator
            if self.exit_code is not None and (lead is None or lead.may_exit(self.exits_since)):
                return self.exit_code

    def tick(self, now):
        """Once a second: what need not happen at once."""
        self.next_tick = now + min(1.0, self.options["lease"] / 10)
        for peer in [peer for peer in self.peers if now >= peer.lease]:
            peer.close()
        if now >= self.next_beat and self.link.lease < FOREVER:
            self.next_beat = now + self.options["beat"]
            self.link.send("beat")
        if now >= self.term_at:
            self.term_at = FOREVER
            self.handle(signal.SIGTERM)
        if self.coordinator is not None:
            self.coordinator.tick(now)
        if (self.options["serves"] or not self.running) and self.finished() and not self.stopping:
            log("run %s is done, ending" % self.hash)
            self.stopping, self.code = True, self.code or 0
            if self.running:
                self.end(self.options["stop"])
            else:
                self.leave(self.code)
        elif self.link.sock is None and not self.running and now >= self.last_log + 60:
            self.last_log = now
            place = "%s:%d" % (self.options["coordinator"], self.options["port"])
            log("waiting for the coordinator %s (%d s)" % (place, now - self.waits_since))

    def accept(self, server):
        """Accepts the connection of a probe or a member."""
        try:
            while True:
                Peer(self, self.coordinator, server.accept()[0], self.options["lease"])
        except OSError:
            pass  # that was the last one

    def connect(self, now):
        """Connects to the coordinator. Nothing of the command lives, so this may block."""
        self.retry_at = FOREVER
        if self.coordinator is not None:
            sock, other = socket.socketpair()
            Peer(self, self.coordinator, other, FOREVER)
            self.link = Peer(self, self, sock, FOREVER)
        else:
            place, own = (self.options["coordinator"], self.options["port"]), self.options["bind"]
            try:
                sock = socket.create_connection(place, 3.0, (own, 0) if own else None)
            except OSError:
                self.retry_after = min(1.0, 1.5 * self.retry_after)
                self.retry_at = now + self.retry_after
                return
            self.link = Peer(self, self, sock, self.options["lease"])
        self.link.send("beat")

    def lost(self, link):
        """The connection to the coordinator is lost. The command ends before its lease does."""
        now = self.waits_since = self.last_log = clock()
        if self.running and self.state["over"] != "released":
            if now >= link.lease:
                lease = self.options["lease"]
                log("no word from the coordinator for %g s: the command is killed" % lease)
            self.end(min(self.options["stop"], link.lease - now))
        elif not self.running and self.exit_code is None:
            self.retry_at = now + self.retry_after

    def on_beat(self, link, message):
        """The coordinator is alive. Its first answer shows that this connection is fresh."""
        if link.name is not None:
            return self.remember(message.get("state"))
        link.name, link.uid, self.retry_after = "the coordinator", message["uid"], 0.05
        self.pod["hellos"] += 1
        self.pod["coordinators"] = sorted({*self.pod["coordinators"], link.uid})
        self.save()
        order = [self.pod["born"], self.pod["starts"], self.pod["hellos"]]
        facts = {name: self.pod[name] for name in ("ran", "done", "coordinators")}
        facts.update(name=self.name, uid=self.uid, run=self.hash, order=order, state=self.state)
        link.send("hello", **facts)

    def on_run(self, link, message):
        """The coordinator begins an epoch."""
        epoch, command = message["state"]["epoch"], self.command
        if self.exit_code is not None:
            return  # the coordinator will read that this Pod leaves
        if self.running or epoch <= self.pod["ran"]:
            return link.close()
        self.pod.update(ran=epoch, coordinators=[link.uid])
        self.remember(message["state"])
        self.running, self.code = True, None
        if self.state["cause"]:
            self.log_epoch()
            if self.options["gate"]:
                command = ["sh", "-c", 'sh "$0" && exec "$@"', self.options["gate"], *command]
        # The command gets the variables and signals that it would have without this program.
        with open("/proc/self/environ", "rb") as file:
            pairs = [line.split(b"=", 1) for line in file.read().split(b"\0") if b"=" in line]
        pairs.append((b"ETCOMPILE_EPOCH", str(epoch).encode()))
        changed = [getattr(signal, "SIG" + name) for name in (*FORWARDED, "CHLD", "PIPE", "XFSZ")]
        # A script that ends its own process group with `kill 0` must not end this program.
        more = {"setsigdef": changed} if os.isatty(0) else {"setsigdef": changed, "setpgroup": 0}
        try:
            self.pid = os.posix_spawnp(command[0], command, dict(pairs), **more)
        except OSError as error:
            log("%s: %s" % (command[0], error.strerror))
            self.command_ended(127 if isinstance(error, FileNotFoundError) else 126)
        for probe in [peer for peer in self.peers if peer.probe]:
            probe.answer()

    def on_stop(self, link, message):
        """The coordinator ends the epoch."""
        if self.running and self.stopping and not message["hurry"]:
            self.handle(signal.SIGTERM)
        elif self.running:
            self.end(self.options["stop"])

    def on_notice(self, link, message):
        """All commands get a signal."""
        if self.running and not self.stopping and not self.ending:
            self.notify(message["signal"], message["why"])

    def on_part(self, link, message):
        """The coordinator exits after everybody has stopped."""
        self.pod["coordinators"] = []
        self.save()

    def on_end(self, link, message):
        """The run ends for all, this member is done, or all go on without a coordinator."""
        self.remember(message["state"])
        over = self.state["over"]
        if over in ("failed", "anew"):
            self.log_epoch()
        if not self.running:
            self.leave(0 if self.pod["done"] or not over else self.code or 143)
        link.close()

    def remember(self, state):
        """Keeps the coordinator's state. The coordinator's own member shares it."""
        if state is not None:
            self.state = state if self.coordinator is None else self.state
            self.save()

    def log_epoch(self):
        """Logs how the run goes on, for the watcher."""
        words = {"": "begins", "failed": "is the last", "anew": "needs new Pods"}
        if self.state["over"] in words:
            text = "epoch {epoch} {words} (restarts: {restarts}, in a row: {row}): {cause}"
            log(text.format(words=words[self.state["over"]], **self.state))
        else:
            log("the first replica has finished: the command is not run again")

    def reap(self):
        """Reaps children; returns whether any lives. All orphans are children of process 1."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.pid = None
                killed = 128 + os.WTERMSIG(status)
                self.command_ended(os.WEXITSTATUS(status) if os.WIFEXITED(status) else killed)

    def command_ended(self, code):
        """The command has ended; what it has left behind ends with it."""
        if self.stopping or not self.ending:  # else the end of the epoch has ended it
            self.code = code if self.code is None else self.code
        if self.stopping:
            return self.end(FOREVER)  # the kubelet sets the limit
        if self.ending:
            return
        if code == 0:
            self.pod["done"] = True
        elif self.state["over"] != "released":
            log("the command ended in epoch %d: %s" % (self.pod["ran"], in_words(code)))
            kind = self.options["permanent"]
            permanent = kind == "all" or (kind == "exit-code" and code <= 127)
            self.link.send("ended", code=code, permanent=permanent)
        self.end(self.options["stop"])

    def end(self, seconds):
        """Ends all processes with TERM, and after so many seconds with KILL."""
        if not self.ending and seconds > 0:
            send_signal(signal.SIGTERM, processes())
            self.patience = seconds
        self.ending, self.kill_at = True, min(self.kill_at, clock() + seconds)

    def end_processes(self, now):
        """Kills what lives too long; goes on when nothing lives."""
        if self.reap():
            if now >= self.kill_at:
                if self.patience:
                    log("what has not ended after %g s is killed" % self.patience)
                self.patience = 0.0
                send_signal(signal.SIGKILL, processes())
                self.kill_at = now + 0.03
            return
        self.running, self.ending, self.kill_at, self.term_at = False, False, FOREVER, FOREVER
        if self.stopping or self.state["over"] == "released":
            self.leave(143 if self.code is None else self.code)
        elif not self.pod["done"]:
            self.link.send("stopped")
        elif self.coordinator is not None:
            self.coordinator.end("released", "")
            self.leave(0)
        else:
            self.save()
            self.link.send("done")
        if self.link.sock is None and self.exit_code is None:
            self.retry_at = now

    def leave(self, code):
        """Has this supervisor exit. Nothing of the command lives."""
        if self.exit_code is None:
            self.link.send("stopped")
            self.exit_code, self.exits_since, self.retry_at = code, clock(), FOREVER

    def handle(self, number):
        """Handles a signal: reaps children, or passes it on to the command."""
        command = [self.pid] if self.pid else []
        if number == signal.SIGCHLD:
            self.reap()
        elif self.stopping or number not in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            send_signal(number, command)
        else:
            self.stopping = True
            self.link.send("leaving")
            word, now = self.options["checkpoint-signal"], clock()
            recently = now < self.last_checkpoint + 60
            if not self.running:
                self.leave(self.code or 128 + number)
            elif word and command and (recently or self.notify(word, "this Pod is to stop")):
                self.term_at = now + self.options["warn"]
            else:
                send_signal(number, command)

    def notify(self, word, why):
        """Sends a signal to those processes that handle it; returns whether there is any."""
        number, pids = getattr(signal, "SIG" + word) if word in NOTICE_SIGNALS else 0, []
        for pid in processes() if number else ():
            caught = re.search(r"SigCgt:\s*(\w+)", read("/proc/%d/status" % pid))
            if caught and int(caught.group(1), 16) >> number - 1 & 1:
                pids.append(pid)
        if number and not pids:
            log("%s: no process handles signal %s" % (why, word))
        if pids:
            log("%s: signal %s is passed on" % (why, word))
            send_signal(number, pids)
        if pids and word == self.options["checkpoint-signal"]:
            self.last_checkpoint = clock()
        return bool(pids)


if __name__ == "__main__":
    try:
        chosen = parse(sys.argv[1:])
    except (ValueError, IndexError, KeyError):
        chosen = {}, []
    if not chosen[1]:
        log("usage: supervise.py [OPTIONS] -- COMMAND...")
        sys.exit(2)
    sys.exit(Supervisor(*chosen).main())
