#!/usr/bin/env python3
"""The nodes' own servers behind a real kube-apiserver: logs, exec, attach, cp, port-forward, metrics and who may ask, with several kubectls.

usage: node_server_test.py GHOSTFLEET    GHOSTFLEET_KUBECTLS: further kubectls, separated by colons; METRICS_SERVER: the program, for `kubectl top`
"""
import json
import os
import pty
import re
import select
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cluster import Cluster, free_port, program, ready_nodes, wait_for

NODES = 3


def pod(name, node, script="", **spec):
    container = {"name": "c", "image": "registry.example/app:1", "ports": [{"containerPort": 8080}],
                 "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"nvidia.com/gpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": {"behavior.ghostfleet.dev/c": script}},
            "spec": {"nodeName": node, "containers": [container], **spec}}


class NodeCluster(Cluster):
    """The API server has a client certificate for nodes, and an aggregation layer."""

    def __init__(self):
        super().__init__(scheduler=False, controllers=False)
        self.extra_flags = ["--kubelet-preferred-address-types=InternalIP", "--kubelet-client-certificate", self.path("kubelet-client.crt"),
                            "--kubelet-client-key", self.path("kubelet-client.key"), "--requestheader-client-ca-file", self.path("ca.crt"), "--requestheader-allowed-names=kube-apiserver-kubelet-client",
                            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
                            "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--proxy-client-cert-file", self.path("kubelet-client.crt"),
                            "--proxy-client-key-file", self.path("kubelet-client.key")]

    def _keys(self):
        super()._keys()
        self.sign("kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client")
        self.sign("stranger", "/CN=stranger")

    def sign(self, name, subject):
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject,
                        "-keyout", self.path(name + ".key"), "-out", self.path(name + ".csr")], **quiet)
        subprocess.run(["openssl", "x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path("ca.crt"), "-CAkey", self.path("ca.key"),
                        "-CAcreateserial", "-days", "2", "-out", self.path(name + ".crt")], **quiet)


class Test:
    def __init__(self, cluster, ghostfleet):
        self.c, self.ghostfleet, self.failed = cluster, ghostfleet, 0
        self.kubectl = program("kubectl")

    def check(self, what, condition, detail=""):
        print(f"{'ok  ' if condition else 'FAIL'} {what} {'' if condition else detail}", flush=True)
        self.failed += 0 if condition else 1

    def start_fleet(self, *flags):
        self.c.add("fleet", [self.ghostfleet, "fleet", "--kubeconfig", self.c.kubeconfig, "--nodes", str(NODES), "--profile", "p5.48xlarge", "--name", "t",
                             "--kubelet-port", "0", *flags], env={"GHOSTFLEET_HOME": self.c.path("home")})
        wait_for("nodes Ready", lambda: ready_nodes(self.c.items("/api/v1/nodes")) == NODES, 60)
        node = self.c.get("/api/v1/nodes/t-1")["status"]
        address = next(a["address"] for a in node["addresses"] if a["type"] == "InternalIP")
        self.url = f"https://{address}:{node['daemonEndpoints']['kubeletEndpoint']['Port']}"

    def run(self, *words, kubectl=None, text=True, seconds=30, stdin=None, kubeconfig=None):
        command = [kubectl or self.kubectl, "--kubeconfig", kubeconfig or self.c.kubeconfig, *words]
        return subprocess.run(command, capture_output=True, text=text, timeout=seconds, input=stdin)

    def expect(self, what, words, out=None, err=None, code=0, **more):
        r = self.run(*words, **more)
        good = r.returncode == code and (out is None or re.search(out, r.stdout)) and (err is None or re.search(err, r.stderr))
        self.check(what, good, f"code {r.returncode}\n{r.stdout[-600:]}\n{r.stderr[-600:]}")
        return r

    def pods(self):
        self.c.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        for p in (pod("web", "t-1", 'log="line {n}" log-every=1s'), pod("other", "t-2"),
                  pod("crash", "t-1", 'exit=3 after=1s log="about to fail" log-every=0 log-crash="panic: no disk"'),
                  pod("stuck", "t-1")):
            if p["metadata"]["name"] == "stuck":
                p["spec"]["containers"][0]["image"] = "registry.example/missing:1"
            self.c.post("/api/v1/namespaces/default/pods", p)
        phase = lambda name: self.c.get(f"/api/v1/namespaces/default/pods/{name}")["status"]
        wait_for("pods run", lambda: phase("web").get("phase") == phase("other").get("phase") == "Running", 30)
        wait_for("a restart", lambda: phase("crash").get("containerStatuses", [{}])[0].get("restartCount", 0) >= 1, 60)

    # ---- with each kubectl

    def logs(self, kubectl):
        wait_for("some lines", lambda: self.run("logs", "web", kubectl=kubectl).stdout.count("\n") >= 3, 20)
        self.expect("logs", ["logs", "web"], r"^line 0\nline 1\n", kubectl=kubectl)
        self.expect("logs --tail", ["logs", "web", "--tail=1"], r"^line \d+\n$", kubectl=kubectl)
        self.expect("logs --timestamps", ["logs", "web", "--timestamps", "--tail=1"], r"^20\d\d-\d\d-\d\dT[\d:]+\.\d{9}Z line \d+\n$", kubectl=kubectl)
        self.expect("logs --limit-bytes", ["logs", "web", "--limit-bytes=6"], r"^line 0$", kubectl=kubectl)
        self.expect("logs --since", ["logs", "other", "--since=1s"], kubectl=kubectl)
        self.expect("logs --previous", ["logs", "crash", "--previous"], r"about to fail\npanic: no disk\n", kubectl=kubectl)
        self.expect("logs --previous of none", ["logs", "web", "--previous"], err='previous terminated container "c" in pod "web" not found', code=1, kubectl=kubectl)
        self.expect("logs of what waits", ["logs", "stuck"], err=r'container "c" in pod "stuck" is waiting to start: (trying and failing to pull image|image can\'t be pulled)',
                    code=1, kubectl=kubectl)

    def follow(self, kubectl):
        child = subprocess.Popen([kubectl, "--kubeconfig", self.c.kubeconfig, "logs", "-f", "web", "--tail=1"], stdout=subprocess.PIPE, text=True)
        lines = [child.stdout.readline() for _ in range(3)]
        child.terminate()
        child.wait(10)
        numbers = [int(line.split()[1]) for line in lines if line.startswith("line ")]
        self.check("logs -f", len(numbers) == 3 and numbers == list(range(numbers[0], numbers[0] + 3)), lines)

    def exec(self, kubectl):
        self.expect("exec", ["exec", "web", "--", "echo", "hello"], r"^hello\n$", kubectl=kubectl)
        self.expect("exec true", ["exec", "web", "--", "true"], r"^$", kubectl=kubectl)
        self.expect("exec code", ["exec", "web", "--", "sh", "-c", "echo to-err >&2; exit 7"], err="to-err\n.*exit code 7", code=7, kubectl=kubectl)
        self.expect("exec of what is not there", ["exec", "web", "--", "nosuch"], err='exec: "nosuch": executable file not found in \\$PATH', code=1, kubectl=kubectl)
        self.expect("exec -i", ["exec", "-i", "web", "--", "cat"], r"^from here$", stdin="from here", kubectl=kubectl)
        self.expect("exec namespace", ["exec", "web", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/namespace"], r"^default$", kubectl=kubectl)
        self.expect("exec nvidia-smi", ["exec", "web", "--", "nvidia-smi", "-L"], r"^GPU 0: NVIDIA H100 80GB HBM3 \(UUID: GPU-", kubectl=kubectl)
        self.expect("exec in no container", ["exec", "stuck", "--", "true"], err="container not found", code=1, kubectl=kubectl)

    def terminal(self, kubectl):
        child, fd = pty.fork()
        if child == 0:
            os.execv(kubectl, [kubectl, "--kubeconfig", self.c.kubeconfig, "exec", "-it", "web", "--", "sh"])
        seen = b""

        def until(wanted, seconds=15):
            nonlocal seen
            end = time.monotonic() + seconds
            while wanted not in seen and time.monotonic() < end:
                if select.select([fd], [], [], 0.2)[0]:
                    try:
                        seen += os.read(fd, 4096)
                    except OSError:
                        break
            return wanted in seen

        good = until(b"/ # ")
        os.write(fd, b"echo ab $HOSTNAME\r")
        good = good and until(b" web\r\n")
        os.write(fd, b"sleep 50\r\x03")
        good = good and until(b"^C\r\n/ # ")
        os.write(fd, b"exit 5\r")
        _, status = os.waitpid(child, 0)
        self.check("exec -it", good and os.waitstatus_to_exitcode(status) == 5, (seen, status))
        os.close(fd)

    def attach(self, kubectl):
        child = subprocess.Popen([kubectl, "--kubeconfig", self.c.kubeconfig, "attach", "web"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = child.stdout.readline()
        child.terminate()
        child.wait(10)
        self.check("attach", line.startswith("line "), line)

    def copy(self, kubectl):
        folder = self.c.path("up-" + os.path.basename(kubectl))
        os.makedirs(folder, exist_ok=True)
        content = os.urandom(300_000)
        with open(os.path.join(folder, "data.bin"), "wb") as f:
            f.write(content)
        self.expect("cp to a pod", ["cp", folder, "web:/tmp/up"], kubectl=kubectl)
        back = self.c.path("back-" + os.path.basename(kubectl))
        self.expect("cp from a pod", ["cp", "web:/tmp/up/data.bin", back], kubectl=kubectl)
        with open(back, "rb") as f:
            self.check("cp brings the same bytes", f.read() == content)
        self.run("exec", "web", "--", "rm", "-rf", "/tmp/up", kubectl=kubectl)

    def forward(self, kubectl):
        port = free_port()
        child = subprocess.Popen([kubectl, "--kubeconfig", self.c.kubeconfig, "port-forward", "web", f"{port}:8080"], stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        texts = []
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                texts.append(answer.read())
        child.terminate()
        child.wait(10)
        self.check("port-forward", texts == [b"default/web port 8080\n"] * 3, texts)
        closed = free_port()
        child = subprocess.Popen([kubectl, "--kubeconfig", self.c.kubeconfig, "port-forward", "web", f"{closed}:81"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        child.stdout.readline()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{closed}/", timeout=10)
            refused = False
        except OSError:
            refused = True
        child.terminate()
        self.check("port-forward to a port that nobody serves", refused and "connection refused" in child.communicate(timeout=10)[1])

    # ---- straight to a node

    def node(self, path, token=None, cert=None, url=None, method="GET"):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if cert:
            context.load_cert_chain(self.c.path(cert + ".crt"), self.c.path(cert + ".key"))
        request = urllib.request.Request((url or self.url) + path, method=method)
        if token:
            request.add_header("Authorization", "Bearer " + token)
        try:
            with urllib.request.urlopen(request, context=context, timeout=15) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def who_may_ask(self):
        admin = self.c.TOKEN
        self.check("no credentials", self.node("/pods") == (401, "Unauthorized"), self.node("/pods"))
        self.check("a wrong token", self.node("/pods", "wrong") == (401, "Unauthorized"))
        wait_for("the client CA is known", lambda: self.node("/pods", cert="kubelet-client")[0] == 200, 30)
        code, text = self.node("/stats/summary", cert="stranger")
        self.check("a stranger", (code, text) == (403, "Forbidden (user=stranger, verb=get, resource=nodes, subresource(s)=[stats])\n"), text)
        # Signed by nobody that the node knows: as without credentials, and a token still counts.
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/O=system:masters/CN=liar", "-days", "2",
                        "-keyout", self.c.path("liar.key"), "-out", self.c.path("liar.crt")], **quiet)
        self.check("a certificate of another authority", self.node("/pods", cert="liar") == (401, "Unauthorized"), self.node("/pods", cert="liar"))
        self.check("the same with a token", self.node("/healthz", admin, cert="liar") == (200, "ok"))
        code, text = self.node("/pods", admin)
        names = [p["metadata"]["name"] for p in json.loads(text)["items"]] if code == 200 else text
        self.check("/pods lists this node's pods only", sorted(names) == ["crash", "stuck", "web"], names)
        code, text = self.node("/containerLogs/default/other/c", admin)
        self.check("a pod of another node", (code, text) == (404, 'pod "other" does not exist'), text)
        self.check("/healthz", self.node("/healthz", admin) == (200, "ok"))
        self.check("/configz", json.loads(self.node("/configz", admin)[1])["kubeletconfig"]["kind"] == "KubeletConfiguration")
        self.check("/runningpods/", [p["metadata"]["name"] for p in json.loads(self.node("/runningpods/", admin)[1])["items"]].count("web") == 1)
        code, text = self.node("/run/default/web/c?cmd=echo%20a%20b", admin, method="POST")
        self.check("/run", (code, text) == (200, "a b\n"), text)
        self.check("/debug is disabled", self.node("/debug/pprof/", admin)[0] == 405)

    def usage(self):
        admin = self.c.TOKEN
        sample = re.compile(r'^[a-z_:][a-z0-9_:]*(\{[a-zA-Z_]+="([^"\\]|\\.)*"(,[a-zA-Z_]+="([^"\\]|\\.)*")*\})? [0-9.e+-]+( \d{13})?$')
        for path in ("/metrics", "/metrics/resource", "/metrics/cadvisor", "/metrics/probes"):
            code, text = self.node(path, admin)
            bad = [line for line in text.splitlines() if not line.startswith(("# HELP ", "# TYPE ")) and not sample.match(line)]
            self.check(f"{path} is well-formed", code == 200 and not bad and text, bad[:3])
        counter = lambda: float(re.search(r'^container_cpu_usage_seconds_total\{container="c",namespace="default",pod="web"\} (\S+)', self.node("/metrics/resource", admin)[1], re.M)[1])
        before = counter()
        wait_for("the counter grows", lambda: counter() > before, 10)
        summary = json.loads(self.node("/stats/summary", admin)[1])
        web = next(p for p in summary["pods"] if p["podRef"]["name"] == "web")
        cores = web["containers"][0]["cpu"]["usageNanoCores"] / 1e9
        self.check("cpu is a share of the request", 0.1 <= cores <= 0.2, cores)

    def top(self):
        server = os.environ.get("METRICS_SERVER")
        if not server:
            print("skip kubectl top: no metrics-server (scripts/setup --metrics-server, then METRICS_SERVER=PROGRAM)", flush=True)
            return
        self.top_with(server, "t", self.c.kubeconfig)
        kubeconfig = self.c.path("embedded.kubeconfig")
        plane = self.c.add("embedded", [self.ghostfleet, "up", "--nodes", str(NODES), "--name", "e", "--port", "0", "--kubelet-port", "0", "--kubeconfig", kubeconfig],
                           env={"GHOSTFLEET_HOME": self.c.path("home-embedded")})
        web = json.dumps(pod("web", "e-1"))
        wait_for("a pod of the embedded plane", lambda: self.run("create", "-f", "-", stdin=web, kubeconfig=kubeconfig).returncode == 0, 60, 1)
        self.top_with(server, "e", kubeconfig)
        self.c.processes["metrics-server-e"].stop()
        plane.stop()

    def top_with(self, server, fleet, kubeconfig):
        """metrics-server beside the API server; the API server reaches it by a Service that is a name."""
        print("kubectl top with", "the embedded plane" if fleet == "e" else "kube-apiserver", flush=True)
        port, name = free_port(), f"metrics-server-{fleet}"
        self.c.add(name, [server, "--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
                          "--secure-port", str(port), "--bind-address", "127.0.0.1", "--cert-dir", self.c.path(name), "--kubelet-insecure-tls",
                          "--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port", "--metric-resolution=10s", "--kubelet-request-timeout=5s"])
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics-server", "namespace": "kube-system"},
                   "spec": {"type": "ExternalName", "externalName": "localhost"}}
        api = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {
            "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
            "service": {"namespace": "kube-system", "name": "metrics-server", "port": port}}}
        for made in (service, api):
            self.expect(f"create {made['kind']}", ["create", "-f", "-"], stdin=json.dumps(made), kubeconfig=kubeconfig)
        top = lambda: self.run("top", "nodes", "--no-headers", kubeconfig=kubeconfig).stdout
        known = rf"{fleet}-\d +\d+m +\d+% +\d+Mi +\d+% *\n"
        try:
            wait_for("kubectl top nodes", lambda: re.fullmatch(f"({known}){{{NODES}}}", top()), 90, 1)
        except AssertionError as error:
            self.check("kubectl top nodes", False, f"{error}\n{top()}\n{self.c.processes[name].tail()}")
            return
        self.check("kubectl top nodes", True)
        self.expect("kubectl top node NAME", ["top", "node", f"{fleet}-1", "--no-headers"], f"^{known}$", kubeconfig=kubeconfig)
        self.expect("kubectl top pods", ["top", "pods"], r"(?m)^web +[12]\d\dm +[6-9]\dMi", kubeconfig=kubeconfig)
        self.expect("kubectl top pods --containers", ["top", "pods", "--containers"], r"(?m)^web +c +[12]\d\dm +[6-9]\dMi", kubeconfig=kubeconfig)
        self.expect("APIService", ["get", "apiservice", "v1beta1.metrics.k8s.io"], r"kube-system/metrics-server +True", kubeconfig=kubeconfig)

    def ports(self):
        """A port for each node, of an address that is not loopback: what a kube-apiserver lets through nodes/proxy."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("192.0.2.1", 9))
            address = s.getsockname()[0]
        self.c.processes["fleet"].stop()
        self.start_fleet("--kubelet-server", "ports", "--kubelet-address", address)
        wait_for("logs again", lambda: self.run("logs", "web", "--tail=1").returncode == 0, 30)
        r = self.expect("nodes/proxy stats", ["get", "--raw", "/api/v1/nodes/t-1/proxy/stats/summary"], '"nodeName":"t-1"')
        r = self.expect("nodes/proxy healthz", ["get", "--raw", "/api/v1/nodes/t-2/proxy/healthz"], "^ok$")
        ports = {n["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for n in self.c.items("/api/v1/nodes")}
        self.check("each node has its port", len(ports) == NODES, ports)


def main():
    with NodeCluster() as cluster:
        test = Test(cluster, sys.argv[1])
        test.start_fleet()
        test.pods()
        extra = [k for k in os.environ.get("GHOSTFLEET_KUBECTLS", "").split(":") if os.access(k, os.X_OK)]
        for kubectl in [test.kubectl, *extra]:
            print("with", os.path.basename(kubectl), flush=True)
            for part in (test.logs, test.follow, test.exec, test.terminal, test.attach, test.copy, test.forward):
                part(kubectl)
        test.who_may_ask()
        test.usage()
        test.top()
        test.ports()
        if test.failed:
            print(cluster.processes["fleet"].tail(40))
        sys.exit(1 if test.failed else 0)


if __name__ == "__main__":
    main()
