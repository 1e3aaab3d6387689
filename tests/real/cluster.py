"""A real control plane on loopback: etcd, kube-apiserver (RBAC, Node, NodeRestriction, audit log), scheduler and controller manager.

Where the programs come from: GHOSTFLEET_REAL_BIN (scripts/setup --real), else the variables of envtest: KUBEBUILDER_ASSETS,
TEST_ASSET_ETCD, TEST_ASSET_KUBE_APISERVER, TEST_ASSET_KUBECTL. Everything lives in one temporary folder and ends with the test.
"""
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

SKIPPED = 77  # exit code that ctest shows as skipped
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: RequestResponse
  userGroups: ["system:nodes"]
- level: Metadata
  userGroups: ["system:serviceaccounts:ghostfleet", "system:bootstrappers"]
- level: None
"""


def program(name):
    """Path of a real program, or None."""
    variable = {"etcd": "TEST_ASSET_ETCD", "kube-apiserver": "TEST_ASSET_KUBE_APISERVER", "kubectl": "TEST_ASSET_KUBECTL"}.get(name)
    candidates = [os.environ.get(variable or "", "")]
    for folder in (os.environ.get("GHOSTFLEET_REAL_BIN"), os.environ.get("KUBEBUILDER_ASSETS")):
        if folder:
            candidates.append(os.path.join(folder, name))
    return next((c for c in candidates if c and os.access(c, os.X_OK)), None)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, condition, seconds, pause=0.2):
    """Repeats condition() until it is true; its last falsy answer is part of the failure."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"after {seconds} s still not: {what} (last: {answer!r})")
        time.sleep(pause)


class Process:
    """A program with its log; ended by stop()."""

    def __init__(self, name, command, log_dir, env=None):
        self.name, self.command = name, command
        self.log = os.path.join(log_dir, name + ".log")
        self.env = {**os.environ, **(env or {})}
        self.child = None

    def start(self):
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT, env=self.env, stdin=subprocess.DEVNULL)
        return self

    def running(self):
        return self.child is not None and self.child.poll() is None

    def stop(self, sig=signal.SIGTERM, seconds=20):
        if not self.running():
            return self.child.returncode if self.child else None
        self.child.send_signal(sig)
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait()

    def cpu_seconds(self):
        with open(f"/proc/{self.child.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self):
        with open(f"/proc/{self.child.pid}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def tail(self, lines=15):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-lines:])


class Cluster:
    """usage: with Cluster() as c: c.kubectl("get", "nodes")"""

    TOKEN = "admin-token-of-the-test"

    def __init__(self, scheduler=True, controllers=True, nodes=(), flags=(), controller_flags=()):
        self.dir = tempfile.mkdtemp(prefix="gf-real-")
        self.with_scheduler, self.with_controllers = scheduler, controllers
        self.node_users, self.extra_flags, self.controller_flags = list(nodes), list(flags), list(controller_flags)
        self.port, self.etcd_port, self.etcd_peer = free_port(), free_port(), free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.audit = os.path.join(self.dir, "audit.log")
        self.processes = {}

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in ("scheduler", "controller-manager", "apiserver", "etcd"):
            if name in self.processes:
                self.processes[name].stop()
        for process in self.processes.values():
            process.stop()
        if os.environ.get("GHOSTFLEET_KEEP"):
            print("kept:", self.dir, flush=True)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def add(self, name, command, env=None):
        self.processes[name] = Process(name, command, self.dir, env).start()
        return self.processes[name]

    def _keys(self):
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["openssl", "genrsa", "-out", self.path("sa.key"), "2048"], **quiet)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test-ca",
                        "-addext", "keyUsage=critical,keyCertSign,digitalSignature", "-keyout", self.path("ca.key"), "-out", self.path("ca.crt")], **quiet)
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=kube-apiserver",
                        "-keyout", self.path("server.key"), "-out", self.path("server.csr")], **quiet)
        self.write("san.cnf", "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\n")
        subprocess.run(["openssl", "x509", "-req", "-in", self.path("server.csr"), "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"), "-CAcreateserial", "-days", "2",
                        "-extfile", self.path("san.cnf"), "-out", self.path("server.crt")], **quiet)

    def _start(self):
        missing = [n for n in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl") if not program(n)]
        if missing:
            print(f"{', '.join(missing)}: not found (scripts/setup --real, then GHOSTFLEET_REAL_BIN=FOLDER; or KUBEBUILDER_ASSETS)", flush=True)
            sys.exit(1 if os.environ.get("GHOSTFLEET_REAL_BIN") else SKIPPED)
        self._keys()
        tokens = [f'{self.TOKEN},admin,admin,"system:masters"']
        tokens += [f'token-of-{n},system:node:{n},{n},"system:nodes"' for n in self.node_users]
        self.write("tokens.csv", "\n".join(tokens) + "\n")
        self.write("audit.yaml", POLICY)
        self.kubeconfig = self.make_kubeconfig("admin.kubeconfig", self.TOKEN)
        self.add("etcd", [program("etcd"), "--data-dir", self.path("etcd"), "--quota-backend-bytes", "8589934592", "--unsafe-no-fsync",
                          "--listen-client-urls", f"http://127.0.0.1:{self.etcd_port}", "--advertise-client-urls", f"http://127.0.0.1:{self.etcd_port}",
                          "--listen-peer-urls", f"http://127.0.0.1:{self.etcd_peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.etcd_peer}",
                          "--initial-cluster", f"default=http://127.0.0.1:{self.etcd_peer}"])
        self.start_apiserver()
        if self.with_controllers:
            self.add("controller-manager", [program("kube-controller-manager"), "--kubeconfig", self.kubeconfig, "--root-ca-file", self.path("ca.crt"),
                                            "--service-account-private-key-file", self.path("sa.key"), "--cluster-signing-cert-file", self.path("ca.crt"),
                                            "--cluster-signing-key-file", self.path("ca.key"), "--secure-port", str(free_port()), "--bind-address", "127.0.0.1",
                                            "--leader-elect=false", "--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-job-syncs=10", *self.controller_flags])
        if self.with_scheduler:
            self.write("scheduler.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                       f"clientConnection: {{kubeconfig: {self.kubeconfig}, qps: 2000, burst: 4000}}\nleaderElection: {{leaderElect: false}}\n")
            self.add("scheduler", [program("kube-scheduler"), "--config", self.path("scheduler.yaml"), "--secure-port", str(free_port()), "--bind-address", "127.0.0.1"])
        if self.with_controllers:
            wait_for("service account default", lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"), 60)

    def start_apiserver(self):
        self.add("apiserver", [program("kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{self.etcd_port}", "--secure-port", str(self.port), "--bind-address", "127.0.0.1",
                               "--tls-cert-file", self.path("server.crt"), "--tls-private-key-file", self.path("server.key"), "--client-ca-file", self.path("ca.crt"),
                               "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-signing-key-file", self.path("sa.key"),
                               "--service-account-key-file", self.path("sa.key"), "--service-cluster-ip-range", "10.96.0.0/16", "--authorization-mode", "RBAC,Node",
                               "--enable-admission-plugins", "NodeRestriction", "--token-auth-file", self.path("tokens.csv"), "--audit-policy-file", self.path("audit.yaml"),
                               "--audit-log-path", self.audit, *self.extra_flags])
        wait_for("kube-apiserver ready", self.ready, 90)
        # /readyz does not wait for the watch caches; until they are filled a watch is answered 429.
        for path in ("/api/v1/nodes", "/api/v1/pods"):
            query = "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
            wait_for(f"watch of {path}", lambda: self.request("GET", path + query, raw=True)[0] == 200, 60)

    def ready(self):
        if not self.processes["apiserver"].running():
            raise AssertionError("kube-apiserver ended:\n" + self.processes["apiserver"].tail())
        try:
            return self.request("GET", "/readyz", raw=True)[0] == 200
        except OSError:
            return False

    def make_kubeconfig(self, name, token):
        return self.write(name, json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.server, "certificate-authority": self.path("ca.crt")}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
            "users": [{"name": "user", "user": {"token": token}}]}))

    def request(self, method, path, body=None, content_type="application/json", raw=False):
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        request = urllib.request.Request(self.server + path, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Bearer " + self.TOKEN)
        request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                text = answer.read()
                return answer.status, text if raw else json.loads(text)
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def get(self, path):
        """The object, or None."""
        code, body = self.request("GET", path)
        return body if code == 200 else None

    def items(self, path):
        code, body = self.request("GET", path)
        if code != 200:
            raise AssertionError(f"GET {path}: {code} {body!r}")
        return body["items"]

    def post(self, path, body):
        code, answer = self.request("POST", path, body)
        if code not in (200, 201):
            raise AssertionError(f"POST {path}: {code} {answer!r}")
        return answer

    def kubectl(self, *args, check=True, **kwargs):
        command = [program("kubectl") or "kubectl", "--kubeconfig", self.kubeconfig, *args]
        return subprocess.run(command, check=check, capture_output=True, text=True, timeout=180, **kwargs)


def ready_nodes(nodes):
    return sum(1 for n in nodes for c in n["status"].get("conditions", []) if c["type"] == "Ready" and c["status"] == "True")
