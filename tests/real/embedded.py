"""The embedded control plane where tests/real/cluster.py starts a real one: same methods, no etcd and no other programs."""
import base64
import re

from cluster import Cluster, wait_for


class EmbeddedCluster(Cluster):
    """usage: with EmbeddedCluster(ghostfleet) as c: c.items("/api/v1/nodes")"""

    def __init__(self, ghostfleet, *flags):
        super().__init__()
        self.ghostfleet, self.flags = ghostfleet, flags
        self.kubeconfig = self.path("admin.kubeconfig")

    def _start(self):
        plane = self.add("apiserver", [self.ghostfleet, "controlplane", "--port", str(self.port), "--kubeconfig", self.kubeconfig, "--data-dir", self.path("plane"), *self.flags],
                         env={"GHOSTFLEET_HOME": self.path("home-plane")})

        def written():
            if not plane.running():
                raise AssertionError("the control plane ended:\n" + plane.tail())
            try:
                with open(self.kubeconfig) as f:
                    return f.read()
            except OSError:
                return None

        text = wait_for("kubeconfig", lambda: written() if "token: " in (written() or "") else None, 60)
        self.TOKEN = re.search(r"token: (\S+)", text)[1]
        self.write("ca.crt", base64.b64decode(re.search(r"certificate-authority-data: (\S+)", text)[1]).decode())
        wait_for("API server ready", self.ready, 60)
        wait_for("service account default", lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"), 60)
