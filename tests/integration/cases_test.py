#!/usr/bin/env python3
"""Public reports about emulated nodes, tried on the embedded control plane with agents and fleets of their own; inputs in tests/data/cases.

usage: cases_test.py GHOSTFLEET [CASE...]

C001 a node whose heartbeats stop and come back; C005 somebody else's finalizer; C010 objects that were there before the agent; C013 deletions while
the agent is away, and a second, shorter grace period; C016 a restart while the server does not list pods. Each case has a control plane of its own, and all
run at the same time, since most of a case is waiting.
"""
import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from plane import Plane

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "cases")
PATHS = {"Node": "/api/v1/nodes", "Pod": "/api/v1/namespaces/default/pods", "Deployment": "/apis/apps/v1/namespaces/default/deployments"}
PODS = PATHS["Pod"]


class Case:
    """A control plane without nodes, and what is started beside it."""

    def __init__(self, name, plane):
        self.name, self.p, self.children = name, plane, []

    def start(self, *words, kubeconfig=None):
        log = open(os.path.join(self.p.home, f"child-{len(self.children)}.log"), "w+")
        env = {**self.p.env, "GHOSTFLEET_HOME": os.path.join(self.p.home, f"home-{len(self.children)}")}
        child = subprocess.Popen([self.p.ghostfleet, words[0], "--kubeconfig", kubeconfig or self.p.kubeconfig, *words[1:]], stdout=log, stderr=log, env=env, stdin=subprocess.DEVNULL)
        child.log = log.name
        self.children.append(child)
        return child

    def agent(self, node="n-a1"):
        return self.start("agent", "--node-name", node, "--capacity", "cpu=8,memory=32Gi,pods=110")

    def end(self):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
                child.terminate()
                child.wait(20)

    def create(self, file):
        for text in re.split(r"(?m)^---$", open(os.path.join(DATA, file)).read()):
            code, answer = self.p.request("POST", PATHS[re.search(r"(?m)^kind: (\w+)", text)[1]], text.encode(), "application/yaml")
            assert code == 201, (code, answer)

    def get(self, path):
        code, body = self.p.request("GET", path)
        return body if code == 200 else None

    def items(self, path):
        code, body = self.p.request("GET", path)
        assert code == 200, (code, body)
        return body["items"]

    def pod(self, name):
        return self.get(f"{PODS}/{name}")

    def delete(self, name, grace=None):
        code, body = self.p.request("DELETE", f"{PODS}/{name}", None if grace is None else {"gracePeriodSeconds": grace})
        assert code == 200, (code, body)

    def wait(self, what, condition, seconds):
        self.p.wait(f"{self.name}: {what}", condition, seconds)

    def running(self, name):
        return condition(self.pod(name), "Ready")[0] == "True"

    def count(self, selector, status="True"):
        return sum(1 for pod in self.items(f"{PODS}?labelSelector={selector}") if condition(pod, "Ready")[0] == status)


def condition(thing, kind):
    """Status and transition time."""
    for c in ((thing or {}).get("status") or {}).get("conditions") or []:
        if c["type"] == kind:
            return c["status"], c["lastTransitionTime"]
    return None, None


def what_stays(pod):
    status = pod["status"]
    return pod["metadata"]["uid"], status["podIP"], status["startTime"], [s["restartCount"] for s in status["containerStatuses"]]


def c001(t):
    """Heartbeats stop for longer than the grace period of 50 s and come back."""
    t.create("C001.yaml")
    agent = t.agent()
    t.wait("pod Ready", lambda: t.count("app=web") == 1, 40)
    pod = t.items(PODS)[0]
    name, since = pod["metadata"]["name"], condition(pod, "Ready")[1]
    agent.send_signal(signal.SIGSTOP)
    t.wait("node Unknown", lambda: condition(t.get("/api/v1/nodes/n-a1"), "Ready")[0] == "Unknown", 80)
    t.wait("pod not Ready", lambda: condition(t.pod(name), "Ready")[0] == "False", 10)
    assert t.pod(name)["status"]["phase"] == "Running"
    time.sleep(3)
    agent.send_signal(signal.SIGCONT)
    t.wait("node Ready again", lambda: condition(t.get("/api/v1/nodes/n-a1"), "Ready")[0] == "True", 20)
    t.wait("pod Ready again", lambda: condition(t.pod(name), "Ready")[0] == "True", 15)
    after = t.pod(name)
    assert condition(after, "Ready")[1] > since, "the transition time is not new"
    assert what_stays(after) == what_stays(pod), (what_stays(after), what_stays(pod))


def c005(t):
    """A finalizer of somebody else holds a deleted pod."""
    t.create("C005.yaml")
    t.agent()
    t.wait("pod Ready", lambda: t.running("held"), 40)
    t.delete("held")
    t.wait("containers ended", lambda: "terminated" in t.pod("held")["status"]["containerStatuses"][0]["state"], 15)
    t.wait("grace 0", lambda: t.pod("held")["metadata"].get("deletionGracePeriodSeconds") == 0, 15)
    held = t.pod("held")
    assert held["metadata"]["finalizers"] == ["example.test/hold"] and held["metadata"]["deletionTimestamp"], held["metadata"]
    assert condition(held, "Ready")[0] == "False", held["status"]["conditions"]
    time.sleep(15)
    assert t.pod("held")["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"], "something writes the held pod again and again"
    code, _ = t.p.request("PATCH", f"{PODS}/held", [{"op": "remove", "path": "/metadata/finalizers"}], "application/json-patch+json")
    assert code == 200, code
    t.wait("gone", lambda: t.pod("held") is None, 2)


def c010(t):
    """Nodes and pods that were there before anything ran them; also a pod that was there before its node."""
    t.create("C010.yaml")
    t.wait("200 pods", lambda: len(t.items(f"{PODS}?labelSelector=app%3Dearly")) == 200, 30)
    t.start("fleet", "--nodes", "21", "--profile", "m5.large", "--name", "early", "--node-name", "n-{index:2}", "--adopt")
    time.sleep(2)
    t.agent("n-late")
    t.wait("all pods Ready", lambda: t.count("app%3Dearly") == 200, 45)
    t.wait("the pod that waited for its node Ready", lambda: t.running("before-node"), 15)


def c013(t):
    """A pod deleted while the agent is away; a second delete with a shorter grace period."""
    t.create("C013.yaml")
    agent = t.agent()
    t.wait("pods Ready", lambda: all(t.running(n) for n in "abc"), 40)
    agent.kill()
    agent.wait()
    t.delete("a")
    assert t.pod("a")["metadata"]["deletionTimestamp"]
    t.agent()
    t.wait("a gone", lambda: t.pod("a") is None, 30)
    begin = time.monotonic()
    for name in "bc":
        t.delete(name, 20)
        assert t.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 20
    time.sleep(4)
    for name in "bc":
        t.delete(name, 5)
        assert t.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 5
        t.delete(name, 100)
        assert t.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 5, "a longer grace must not lengthen it"
    t.wait("c gone", lambda: t.pod("c") is None, 20)
    took = time.monotonic() - begin
    assert 8 < took < 17, f"c, which stops in 9 s, was gone after {took:.1f} s"
    t.wait("b gone", lambda: t.pod("b") is None, 30)
    took = time.monotonic() - begin
    assert 19 < took < 30, f"b, which ignores TERM, was gone after {took:.1f} s: the first grace period is 20 s"


class Proxy(http.server.ThreadingHTTPServer):
    """Plain HTTP before the API server. `lists` says what becomes of reads of all pods: "pass", "refuse" (503) or "slow" (250 ms)."""
    daemon_threads = True
    block_on_close = False

    def __init__(self, plane):
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.plane, self.lists, self.deletes, self.refused = plane, "pass", 0, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that was killed


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def forward(self):
        server = self.server
        if self.command == "DELETE" and "/pods/" in self.path:
            server.deletes += 1
        if self.command == "GET" and self.path.startswith("/api/v1/pods"):
            if server.lists == "refuse":
                server.refused += 1
                return self.refuse()
            if server.lists == "slow":
                time.sleep(0.25)
        host = server.plane.server.split("//")[1]
        upstream = http.client.HTTPSConnection(host, context=server.plane.context, timeout=600)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "content-length", "accept-encoding")}
        upstream.request(self.command, self.path, body or None, headers)
        self.answer(upstream.getresponse())
        upstream.close()

    def answer(self, answer):
        self.send_response(answer.status)
        for key, value in answer.getheaders():
            if key.lower() not in ("content-length", "transfer-encoding", "connection", "server", "date"):
                self.send_header(key, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            data = answer.read1(65536)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
            if not data:
                return

    def refuse(self):
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "ServiceUnavailable", "code": 503}).encode()
        self.send_response(503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward


def c016(t):
    """The fleet is killed and starts again while the server refuses to list pods for 20 s, then answers slowly."""
    proxy = Proxy(t.p)
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {"token": t.p.token}}],
              "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{proxy.server_port}"}}], "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}
    path = os.path.join(t.p.home, "proxy.kubeconfig")
    with open(path, "w") as f:
        json.dump(config, f)
    words = ("fleet", "--nodes", "5", "--profile", "m5.large", "--name", "five")
    fleet = t.start(*words, kubeconfig=path)
    t.wait("nodes Ready", lambda: t.p.ready_nodes() == 5, 40)
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "registry.example.test/web:1"}]}}
    code, answer = t.p.request("POST", PATHS["Deployment"], {"metadata": {"name": "web"}, "spec": {"replicas": 50, "selector": {"matchLabels": {"app": "web"}}, "template": pod}})
    assert code == 201, answer
    t.wait("50 pods Ready", lambda: t.count("app%3Dweb") == 50, 40)
    before = {what_stays(p)[0]: what_stays(p) for p in t.items(PODS)}
    deletes = proxy.deletes
    fleet.kill()
    fleet.wait()
    proxy.lists = "refuse"
    t.start(*words, kubeconfig=path)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        assert t.count("app%3Dweb") == 50 and len(t.items(PODS)) == 50, "pods changed while they could not be listed"
        time.sleep(0.5)
    assert proxy.refused > 0, "nobody asked for the pods"
    proxy.lists = "slow"
    t.wait("the fleet runs pods again", lambda: scale_and_look(t, 51), 60)
    after = {what_stays(p)[0]: what_stays(p) for p in t.items(PODS)}
    assert all(after.get(uid) == what for uid, what in before.items()), "a pod was lost, restarted or got another address"
    assert len(after) == 51 and proxy.deletes == deletes, (len(after), proxy.deletes)


def scale_and_look(t, replicas):
    t.p.request("PATCH", PATHS["Deployment"] + "/web", {"spec": {"replicas": replicas}}, "application/merge-patch+json")
    return t.count("app%3Dweb") == replicas


CASES = {f.__name__.upper(): f for f in (c001, c005, c010, c013, c016)}


def run(ghostfleet, name):
    begin = time.monotonic()
    try:
        with Plane(ghostfleet) as plane:
            t = Case(name, plane)
            try:
                CASES[name](t)
            except BaseException:
                for child in t.children:
                    print(name, open(child.log).read()[-800:], flush=True)
                raise
            finally:
                t.end()
    except Exception:
        print(f"FAIL {name}\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok   {name} {time.monotonic() - begin:.0f} s: {CASES[name].__doc__}", flush=True)
    return True


def main():
    names = sys.argv[2:] or list(CASES)
    with ThreadPoolExecutor(len(names)) as pool:
        good = list(pool.map(lambda name: run(sys.argv[1], name), names))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
