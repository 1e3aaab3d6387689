#!/usr/bin/env python3
"""Who a fleet is, on a real Kubernetes with Node and RBAC authorization and NodeRestriction.

1. A fleet with exactly the rights of manifests/rbac.yaml works, nothing it asks is refused, and it uses every right.
2. Fifty nodes with certificates of their own: requests signed by the controller manager, users system:node:NAME in the audit log, certificates renewed
   (they live 170 seconds here), a restart that needs no new ones, serving certificates approved by the fleet.
3. One node bootstraps with a bootstrap token as a kubelet does.

usage: identity_test.py GHOSTFLEET [--nodes N]
"""
import argparse
import json
import os
import subprocess
import sys
import time

import yaml

from cluster import Cluster, ready_nodes, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = os.path.join(HERE, "..", "..", "manifests", "rbac.yaml")
ACCOUNT = "system:serviceaccount:ghostfleet:ghostfleet"
SIGNED_FOR = 170  # seconds a certificate lives. The controller manager dates it 300 s back, so that its renewal is due 29 to 123 s after it was signed
ELSEWHERE = {("list", "", "pods")}  # rights that only an older server makes a fleet use
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def audit(path):
    with open(path) as log:
        for line in log:
            if line.endswith("\n"):
                yield json.loads(line)


def right_of(entry):
    ref = entry["objectRef"]
    return entry["verb"], ref.get("apiGroup", ""), ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else "")


def rights_of(documents, kind, name):
    rules = next(d["rules"] for d in documents if d["kind"] == kind and d["metadata"]["name"] == name)
    return {(verb, group, resource) for r in rules for verb in r["verbs"] for group in r["apiGroups"] for resource in r["resources"]}


class Test:
    def __init__(self, cluster, args):
        self.c, self.args = cluster, args
        self.env = {"GHOSTFLEET_HOME": cluster.path("home")}
        with open(MANIFEST) as f:
            self.manifest = list(yaml.safe_load_all(f))

    def check(self, what, condition, detail=""):
        print(f"{'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
        if not condition:
            for name, process in self.c.processes.items():
                if name.startswith("fleet") or name == "agent":
                    print(process.tail(), flush=True)
            sys.exit(1)

    def run(self, name, *words):
        return self.c.add(name, [self.args.ghostfleet, *words], env=self.env)

    def nodes(self, prefix):
        return [n for n in self.c.items("/api/v1/nodes?resourceVersion=0") if n["metadata"]["name"].startswith(prefix)]

    def wait_ready(self, prefix, count, seconds=60):
        begin = time.monotonic()
        wait_for(f"{count} nodes {prefix} Ready", lambda: ready_nodes(self.nodes(prefix)) == count, seconds, 0.5)
        self.check(f"{count} nodes {prefix}... are Ready", True, f"after {time.monotonic() - begin:.1f} s")

    def apply_manifest(self):
        self.c.kubectl("apply", "-f", MANIFEST)
        token = wait_for("a token", lambda: self.c.request("POST", "/api/v1/namespaces/ghostfleet/serviceaccounts/ghostfleet/token",
                                                           {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 3600}}), 20)
        self.kubeconfig = self.c.make_kubeconfig("fleet.kubeconfig", token[1]["status"]["token"])

    # ---- 1

    def least_rights(self):
        # What makes a fleet use the rarer rights: a Node and a CSINode of its names from before, a restart, somebody who writes a lease and takes a label away,
        # a pod that crashes and is deleted.
        self.c.post("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "s-0"}, "spec": {"drivers": []}})
        self.c.post("/api/v1/nodes", {"metadata": {"name": "s-1"}})
        words = ["fleet", "--kubeconfig", self.kubeconfig, "--nodes", "20", "--name", "s", "--kubelet-server", "off", "--summary", self.c.path("shared.json")]
        fleet = self.run("fleet-shared", *words)
        self.wait_ready("s-", 19)
        wait_for("leases", lambda: sum(x["metadata"]["name"].startswith("s-") for x in self.c.items(LEASES)) >= 19, 30)
        fleet.stop()
        fleet = self.run("fleet-shared", *words)
        pod = {"metadata": {"name": "crashes", "annotations": {"behavior.ghostfleet.dev/c": "exit=1 after=0s"}},
               "spec": {"nodeName": "s-2", "terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "registry.example/app:1"}]}}
        wait_for("service account", lambda: self.c.get("/api/v1/namespaces/default/serviceaccounts/default"), 30)
        self.c.post("/api/v1/namespaces/default/pods", pod)
        self.c.request("PATCH", "/api/v1/nodes/s-4", {"metadata": {"labels": {"kubernetes.io/os": None}}}, "application/merge-patch+json")
        wait_for("the label is back", lambda: "kubernetes.io/os" in self.c.get("/api/v1/nodes/s-4")["metadata"]["labels"], 40, 0.5)
        self.c.request("PATCH", f"{LEASES}/s-3", {"metadata": {"annotations": {"by": "somebody"}}}, "application/merge-patch+json")
        late = {("delete", "", "pods")}
        wait_for("every right is used", lambda: self.wanted() - self.used() <= late, 60, 1)
        self.c.request("DELETE", "/api/v1/namespaces/default/pods/crashes")
        wait_for("the pod is gone", lambda: self.c.get("/api/v1/namespaces/default/pods/crashes") is None, 30)
        refused = [f"{right_of(e)}: {e['responseStatus'].get('message')}" for e in audit(self.c.audit)
                   if e["user"]["username"] == ACCOUNT and e.get("responseStatus", {}).get("code") == 403]
        self.check("nothing a fleet asks is refused", not refused, str(refused[:3]))
        unused, extra = self.wanted() - self.used(), self.used() - self.wanted() - ELSEWHERE
        self.check("every right of the manifest is used", not unused, str(sorted(unused)))
        self.check("no other right is used", not extra, str(sorted(extra)))
        fleet.stop()

    def used(self):
        """Rights the service account has used, but for those of requesting certificates."""
        return {right_of(e) for e in audit(self.c.audit) if e["user"]["username"] == ACCOUNT and "objectRef" in e
                and not e["objectRef"]["resource"].startswith("certificatesigningrequests")}

    def wanted(self):
        """Rights of the manifest that this server makes a fleet use."""
        return (rights_of(self.manifest, "ClusterRole", "ghostfleet") | rights_of(self.manifest, "Role", "ghostfleet")) - ELSEWHERE

    # ---- 2

    def own_identities(self):
        words = ["fleet", "--kubeconfig", self.kubeconfig, "--nodes", str(self.args.nodes), "--name", "own", "--identity", "per-node", "--approve-serving",
                 "--summary", self.c.path("own.json")]
        self.c.kubectl("create", "clusterrolebinding", "approve-serving", "--clusterrole=ghostfleet-approve-serving", "--serviceaccount=ghostfleet:ghostfleet")
        fleet = self.run("fleet-own", *words)
        self.wait_ready("own-", self.args.nodes)
        names = {f"system:node:own-{i}" for i in range(self.args.nodes)}
        users = {e["user"]["username"] for e in audit(self.c.audit) if e["requestURI"].startswith(("/api/v1/nodes", LEASES)) and e["user"]["username"].startswith("system:node:")}
        self.check("each node is its own user", users == names, f"({len(users)} users)")
        agents = {e["userAgent"] for e in audit(self.c.audit) if e["user"]["username"] in names}
        self.check("with a kubelet's user agent", len(agents) == 1 and agents.pop().startswith("kubelet/v1.36"), "")
        client = [r for r in self.c.items(REQUESTS) if r["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"]
        reasons = {c["reason"] for r in client for c in r["status"].get("conditions", []) if c["type"] == "Approved"}
        self.check("requests approved by the controller manager", reasons == {"AutoApproved"} and len(client) >= self.args.nodes, f"({len(client)} requests, {reasons})")
        serving = os.path.join(self.c.path("home"), "certificates")
        wait_for("serving certificates", lambda: sum(f.endswith("-server.pem") for _, _, files in os.walk(serving) for f in files) == self.args.nodes, 30)
        self.check("serving certificates are approved and kept", True)
        refused = [f"{e['user']['username']} {e['verb']} {e['requestURI']}: {e['responseStatus'].get('message')}" for e in audit(self.c.audit)
                   if e["user"]["username"] in names and e.get("responseStatus", {}).get("code") in (401, 403)]
        self.check("nothing a node asks is refused", not refused, str(refused[:3]))
        # A restart at once: the certificates that are kept will do.
        fleet.stop()
        before = len(self.c.items(REQUESTS))
        fleet = self.run("fleet-own", *words)
        time.sleep(5)
        self.wait_ready("own-", self.args.nodes)
        summary = json.load(open(self.c.path("own.json")))
        print("     ", json.dumps({k: summary[k] for k in ("ready_seconds", "certificates", "errors", "cpu_seconds", "rss_bytes")}), flush=True)
        after = len(self.c.items(REQUESTS))
        self.check("a restart uses the certificates that are kept", after <= before + self.args.nodes // 2, f"({before} -> {after} requests)")
        return fleet

    def renewal(self, fleet):
        renewed = lambda: {r["spec"]["username"] for r in self.c.items(REQUESTS) if r["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
                           and r["spec"]["username"].startswith("system:node:own-") and r["status"].get("certificate")}
        wait_for("ten nodes have renewed their certificates", lambda: len(renewed()) >= 10, SIGNED_FOR, 1)
        self.check("nodes renew their certificates as themselves", True, f"({len(renewed())} so far)")
        self.check("and stays Ready", ready_nodes(self.nodes("own-")) == self.args.nodes)
        state = json.loads(subprocess.run([self.args.ghostfleet, "status", "-o", "json"], capture_output=True, text=True, env={**os.environ, **self.env}).stdout)["items"]
        mine = next(s for s in state if s["name"] == "own")
        self.check("no NotReady was seen", mine["not_ready_transitions"] == 0 and mine["certificates"] == self.args.nodes, json.dumps(mine["errors"]))
        fleet.stop()

    # ---- 3

    def bootstrap(self):
        self.c.post("/api/v1/namespaces/kube-system/secrets", {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:worker"}})
        for role in ("system:node-bootstrapper", "system:certificates.k8s.io:certificatesigningrequests:nodeclient"):
            self.c.kubectl("create", "clusterrolebinding", "bootstrap-" + role.split(":")[-1], "--clusterrole=" + role, "--group=system:bootstrappers")
        bootstrap = self.c.make_kubeconfig("bootstrap.kubeconfig", "abcdef.0123456789abcdef")
        own, pki = self.c.path("node.kubeconfig"), self.c.path("pki")
        agent = self.run("agent", "agent", "--node-name", "alone", "--capacity", "cpu=4,memory=8Gi,pods=110", "--bootstrap-kubeconfig", bootstrap, "--kubeconfig", own,
                         "--cert-dir", pki, "--rotate-certificates")
        self.wait_ready("alone", 1)
        by = [(e["verb"], e["objectRef"]["resource"]) for e in audit(self.c.audit) if e["user"]["username"] == "system:bootstrap:abcdef" and e["stage"] == "RequestReceived"
              and "objectRef" in e]
        self.check("the bootstrap token is used for the request alone", by[:3] == [("create", "certificatesigningrequests"), ("list", "certificatesigningrequests"),
                                                                                   ("watch", "certificatesigningrequests")] and len(by) <= 4, str(by))
        self.check("kubeconfig and certificate as a kubelet's", os.path.islink(os.path.join(pki, "kubelet-client-current.pem")) and "kubelet-client-current.pem" in open(own).read())
        asked = self.c.kubectl("--kubeconfig", own, "get", "node", "alone", check=False)
        self.check("the kubeconfig works for kubectl", asked.returncode == 0, asked.stderr[:200])
        agent.stop()

    def down(self):
        for name in ("s", "own"):
            counted = subprocess.run([self.args.ghostfleet, "down", "--kubeconfig", self.c.kubeconfig, "--fleet", name, "--dry-run"], capture_output=True, text=True,
                                     env={**os.environ, **self.env}).stdout
            done = subprocess.run([self.args.ghostfleet, "down", "--kubeconfig", self.c.kubeconfig, "--fleet", name], capture_output=True, text=True, env={**os.environ, **self.env})
            print("     ", done.stdout.strip(), flush=True)
            self.check(f"down of {name}, and --dry-run counts the same", done.returncode == 0 and counted.replace("would remove", "removed") == done.stdout, counted)
        left = [r["spec"]["username"] for r in self.c.items(REQUESTS) if "own-" in r["spec"]["username"]]
        self.check("no signing request of its nodes is left", not left)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=50)
    args = parser.parse_args()
    with Cluster(scheduler=False, flags=["--enable-bootstrap-token-auth"], controller_flags=[f"--cluster-signing-duration={SIGNED_FOR}s"]) as cluster:
        t = Test(cluster, args)
        t.apply_manifest()
        fleet = t.own_identities()
        t.least_rights()
        t.bootstrap()
        t.renewal(fleet)
        t.down()


if __name__ == "__main__":
    main()
