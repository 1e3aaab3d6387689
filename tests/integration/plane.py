"""A running `ghostfleet up` for the tests of this folder: its own home folder, any free port, ended by stop()."""
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request


class Plane:
    """usage: with Plane(ghostfleet, nodes=20) as p: p.request("GET", "/api/v1/nodes")"""

    def __init__(self, ghostfleet, *flags, nodes=0):
        self.ghostfleet = ghostfleet
        self.home = tempfile.mkdtemp(prefix="gf-test-")
        self.kubeconfig = os.path.join(self.home, "kubeconfig")
        self.env = {**os.environ, "GHOSTFLEET_HOME": self.home}
        self.nodes = nodes
        command = ["up", "--nodes", str(nodes), "--name", "t"] if nodes else ["controlplane"]
        self.command = [ghostfleet, *command, "--port", "0", "--kubeconfig", self.kubeconfig, *flags]

    def __enter__(self):
        self.log = open(os.path.join(self.home, "log"), "w+")
        self.child = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, env=self.env, stdin=subprocess.DEVNULL)
        try:
            self.wait("kubeconfig written", lambda: os.path.exists(self.kubeconfig), 30)
            self._read_kubeconfig()
            self.wait("API server ready", lambda: self.request("GET", "/readyz", raw=True)[0] == 200, 30)
            if self.nodes:
                self.wait("nodes Ready", lambda: self.ready_nodes() == self.nodes, 60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        code = self.stop()
        self.log.seek(0)
        self.output = self.log.read()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)
        return code is None

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
                raise AssertionError("did not end within 20 s of SIGTERM")
        return self.child.returncode

    def _read_kubeconfig(self):
        text = open(self.kubeconfig).read()
        self.server = text.split("server: ")[1].split()[0]
        self.token = text.split("token: ")[1].split()[0]
        import base64
        ca = base64.b64decode(text.split("certificate-authority-data: ")[1].split()[0]).decode()
        self.context = ssl.create_default_context(cadata=ca)

    def wait(self, what, condition, seconds):
        end = time.monotonic() + seconds
        while True:
            if self.child.poll() is not None:
                self.log.flush()
                raise AssertionError(f"ghostfleet ended with {self.child.returncode}: {open(self.log.name).read()[-2000:]}")
            try:
                if condition():
                    return
            except OSError:
                pass
            if time.monotonic() > end:
                raise AssertionError(f"after {seconds} s still not: {what}")
            time.sleep(0.1)

    def request(self, method, path, body=None, content_type="application/json", headers=None, raw=False, token=None):
        request = urllib.request.Request(self.server + path, method=method)
        if body is not None:
            request.data = body if isinstance(body, bytes) else json.dumps(body).encode()
            request.add_header("Content-Type", content_type)
        token = self.token if token is None else token
        if token:
            request.add_header("Authorization", "Bearer " + token)
        for key, value in (headers or {}).items():
            request.add_header(key, value)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
                data = answer.read()
                return answer.status, data if raw else json.loads(data)
        except urllib.error.HTTPError as error:
            data = error.read()
            try:
                return error.code, data if raw else json.loads(data)
            except ValueError:
                return error.code, data

    def ready_nodes(self):
        nodes = self.request("GET", "/api/v1/nodes")[1]["items"]
        return sum(1 for n in nodes for c in n["status"].get("conditions", []) if c["type"] == "Ready" and c["status"] == "True")
