"""What the public cases share: a control plane of their own, agents and fleets beside it, a watch that remembers, an API server that lies."""
import http.client
import http.server
import json
import os
import re
import signal
import subprocess
import threading
import time

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "cases")
PATHS = {"Node": "/api/v1/nodes", "Pod": "/api/v1/namespaces/default/pods", "Deployment": "/apis/apps/v1/namespaces/default/deployments",
         "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets", "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets",
         "Job": "/apis/batch/v1/namespaces/default/jobs", "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
         "Event": "/api/v1/namespaces/default/events"}
PODS, NODES, JOBS, EVENTS = PATHS["Pod"], PATHS["Node"], PATHS["Job"], PATHS["Event"]
GRACE = 25  # seconds without a renewal until a node counts as lost, in the cases that wait for it
SHORT_GRACE = ("--node-monitor-grace-period", f"{GRACE}s")

CASES = {}  # name: (function, flags of the control plane)
BY_HAND = {}  # the same, of those that take too long for every day


def case(name, *flags, by_hand=False):
    def add(function):
        (BY_HAND if by_hand else CASES)[name] = (function, flags)
        return function
    return add


def documents(file):
    """The objects of a file, as text."""
    with open(os.path.join(DATA, file)) as f:
        return [text for text in re.split(r"(?m)^---$", f.read()) if text.strip()]


def kind_of(text):
    return re.search(r"(?m)^kind: (\w+)", text)[1]


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

    def agent(self, node="n-a1", *words, capacity="cpu=8,memory=32Gi,pods=110"):
        return self.start("agent", "--node-name", node, "--capacity", capacity, *words)

    def end(self):
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGCONT)
                child.terminate()
                child.wait(20)

    def create(self, file):
        for text in documents(file):
            self.post(PATHS[kind_of(text)], text.encode(), "application/yaml")

    def post(self, path, body, content_type="application/json", code=201):
        got, answer = self.p.request("POST", path, body, content_type)
        assert got == code, (path, got, answer)
        return answer

    def patch(self, path, body, kind="merge", code=200):
        got, answer = self.p.request("PATCH", path, body, {"merge": "application/merge-patch+json", "json": "application/json-patch+json", "strategic": "application/strategic-merge-patch+json"}[kind])
        assert got == code, (path, got, answer)
        return answer

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

    def evict(self, name, **options):
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        return self.p.request("POST", f"{PODS}/{name}/eviction", {**body, "deleteOptions": options} if options else body)

    def node_is(self, name, status):
        return condition(self.get(f"{NODES}/{name}"), "Ready")[0] == status

    def events(self, name, reason):
        return [e for e in self.items(EVENTS) if e["reason"] == reason and e["involvedObject"]["name"] == name]

    def watch(self, path):
        return Watch(self.p, path)

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


def has_taint(node, key, effect):
    return any(t["key"] == key and t["effect"] == effect for t in node["spec"].get("taints", []))


def seconds(text):
    """A time of the API as seconds; those of conditions are whole ones."""
    from datetime import datetime
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Watch:
    """All events of a collection from now on, in order, each with the moment it came."""

    def __init__(self, plane, path):
        self.events = []
        version = plane.request("GET", path)[1]["metadata"]["resourceVersion"]
        host = plane.server.split("//")[1]
        self.connection = http.client.HTTPSConnection(host, context=plane.context, timeout=600)
        self.connection.request("GET", f"{path}{'&' if '?' in path else '?'}watch=1&resourceVersion={version}", headers={"Authorization": "Bearer " + plane.token})
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200, self.answer.status
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for line in self.answer:
                event = json.loads(line)
                self.events.append((time.monotonic(), event["type"], event["object"]))
        except (OSError, ValueError, AttributeError):
            pass  # the test is over

    def of(self, uid):
        return [(kind, thing) for _, kind, thing in list(self.events) if thing["metadata"].get("uid") == uid]


def what_stays(pod):
    status = pod["status"]
    return pod["metadata"]["uid"], status["podIP"], status["startTime"], [s["restartCount"] for s in status["containerStatuses"]]


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
