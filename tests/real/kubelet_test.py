#!/usr/bin/env python3
"""A ghost against a kubelet: both are nodes of one real control plane, both get the same pods, and their requests are compared.

What is compared: for each pod the recordings of both (record.py, judged by trace_diff.py: states, order, events, transition times), and for the
start of a node the requests in their order with the fields they set.

usage: kubelet_test.py GHOSTFLEET [POD...]
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time

from cluster import Cluster, free_port, program, wait_for
from record import Recorder

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "..", "data", "traces")
TRACE_DIFF = os.path.join(HERE, "..", "support", "trace_diff.py")
NODES = ["kubelet-0", "ghost-0"]
CAPACITY = "cpu=16,memory=64Gi,pods=110,nvidia.com/gpu=8"
PODS = ["plain", "gpu", "succeeds", "fails", "crashes", "retries", "too-big", "wrong-node"]
IMAGE_RULES = '- {match: "*missing*", error: NotFound}\n- {match: "*slow*", pull: 5s}\n'

# What may differ at the start of a node, and why.
ACCEPTED = {
    "get nodes": "a kubelet polls for its own Node object from several loops until it exists; how often is chance",
    "patch events": "how often an event is repeated while the Node is being built depends on the number of registration attempts",
    "patch nodes/status": "the kubelet may write the status once or twice before it is Ready, as its CSINode comes in between or not",
}

ACCEPTED_FIELDS = {
    ".spec.providerID": "the kubelet's is that of its cloud stub; a ghost without a profile has no cloud",
    ".status.features.supplementalGroupsPolicy": "told by the container runtime; the pretending one tells nothing, containerd 2 does",
    ".status.runtimeHandlers[].name": "as above",
    ".status.runtimeHandlers[].features.recursiveReadOnlyMounts": "as above",
    ".status.runtimeHandlers[].features.userNamespaces": "as above",
}


def audit_rows(path, user):
    with open(path) as log:
        for line in log:
            if not line.endswith("\n"):
                return
            entry = json.loads(line)
            if entry["user"]["username"] == user:
                yield entry


def field_set(value, prefix=""):
    """Paths of all fields; elements of lists count as one, keys of labels, annotations and resources stay."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from field_set(inner, f"{prefix}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from field_set(inner, prefix + "[]")
        if not value:
            yield prefix + "[]"
    else:
        yield prefix


class Start:
    """What a node asked in its first seconds."""

    def __init__(self, path, node):
        self.writes, self.watches, self.kinds, self.agents = [], set(), {}, set()
        for e in audit_rows(path, "system:node:" + node):
            ref = e.get("objectRef", {})
            self.agents.add(re.sub(r"kubernetes/\S+$", "kubernetes/COMMIT", e.get("userAgent", "none")))
            what = ref.get("resource", "") + ("/" + ref["subresource"] if ref.get("subresource") else "")
            if ref.get("resource") in ("pods", "serviceaccounts", "configmaps", "secrets"):
                if e["verb"] != "watch":
                    continue
            if e["verb"] == "watch":
                uri = e["requestURI"].replace(node, "NODE")
                self.watches.add(re.sub(r"(timeout(Seconds)?=)[^&]*", r"\1*", uri))
                continue
            if e["stage"] != "ResponseComplete":
                continue
            key = f"{e['verb']} {what}"
            self.kinds.setdefault(key, []).append(e)
            if e["verb"] in ("create", "patch", "update") and e["responseStatus"]["code"] < 300:
                body = e.get("requestObject") or {}
                reason = body.get("reason", "") if what == "events" else ""
                self.writes.append((key, reason, frozenset(field_set(body))))

    def first_writes(self):
        """The first successful write of each kind (events by reason), in order."""
        seen, out = set(), []
        for key, reason, fields in self.writes:
            name = key + (" " + reason if reason else "")
            if name not in seen and not (key == "patch events"):
                seen.add(name)
                out.append((name, fields))
        return out


def object_requests(path, node):
    """What a node asked of ConfigMaps and Secrets: verb and query, without the names of namespaces, versions and times."""
    out = set()
    for e in audit_rows(path, "system:node:" + node):
        ref = e.get("objectRef", {})
        if ref.get("resource") not in ("configmaps", "secrets") or "pods-of-" not in ref.get("namespace", ""):
            continue
        uri = e["requestURI"].replace(ref["namespace"], "NS")
        if "resourceVersion=" in uri:
            continue  # a watch that goes on: when it does is chance
        out.add(e["verb"] + " " + re.sub(r"(timeout(Seconds)?=)[^&]*", r"\1*", uri))
    return out


def compare_objects(kubelet, ghost):
    return [f"the ghost does not ask {x}" for x in sorted(kubelet - ghost)] + [f"only the ghost asks {x}" for x in sorted(ghost - kubelet)]


def compare_start(kubelet, ghost):
    faults = []
    if kubelet.agents != ghost.agents:
        faults.append(f"other user agents: kubelet {sorted(kubelet.agents)}, ghost {sorted(ghost.agents)}")
    for path in sorted(kubelet.watches - ghost.watches):
        faults.append(f"the ghost does not open {path}")
    for path in sorted(ghost.watches - kubelet.watches):
        faults.append(f"only the ghost opens {path}")
    for key in sorted(set(kubelet.kinds) ^ set(ghost.kinds)):
        if key not in ACCEPTED:
            faults.append(f"{key}: only {'the kubelet' if key in kubelet.kinds else 'the ghost'} does it")
    a, b = dict(kubelet.first_writes()), dict(ghost.first_writes())
    for name in sorted(set(a) ^ set(b)):
        if name.rsplit(" ", 1)[0] not in ACCEPTED and name not in ACCEPTED:
            faults.append(f"{name}: only {'the kubelet' if name in a else 'the ghost'} writes it")
    for name in sorted(set(a) & set(b)):
        only_a, only_b = (sorted(x - y - set(ACCEPTED_FIELDS)) for x, y in ((a[name], b[name]), (b[name], a[name])))
        if (only_a or only_b) and name not in ACCEPTED:
            faults.append(f"{name}: other fields: kubelet only {only_a}, ghost only {only_b}")
    order_a = [n for n, _ in kubelet.first_writes() if n in b and "events" not in n]
    order_b = [n for n, _ in ghost.first_writes() if n in a and "events" not in n]
    if order_a != order_b:
        faults.append(f"other order: kubelet {order_a}, ghost {order_b}")
    return faults


def wait_ready(c, node):
    def ready():
        conditions = (c.get(f"/api/v1/nodes/{node}") or {"status": {}})["status"].get("conditions", [])
        return any(x["type"] == "Ready" and x["status"] == "True" for x in conditions)
    wait_for(f"{node} Ready", ready, 90)
    wait_for(f"lease of {node}", lambda: c.get(f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"), 60)


def start_nodes(c, ghostfleet):
    for node in NODES:
        c.make_kubeconfig(f"{node}.kubeconfig", "token-of-" + node)
        os.makedirs(c.path("manifests-" + node))
    c.add("kubelet", [program("kubelet"), "--kubeconfig", c.path("kubelet-0.kubeconfig"), "--name", "kubelet-0", "--port", str(free_port()), "--extended", "nvidia.com/gpu=8",
                      "--manifests", c.path("manifests-kubelet-0")])
    c.add("ghost", [ghostfleet, "agent", "--kubeconfig", c.path("ghost-0.kubeconfig"), "--node-name", "ghost-0", "--capacity", CAPACITY,
                    "--pod-manifest-path", c.path("manifests-ghost-0"),
                    "--image-rules", c.write("images.yaml", IMAGE_RULES)], env={"GHOSTFLEET_HOME": c.path("home")})
    for node in NODES:
        wait_ready(c, node)
    time.sleep(2)  # the last events of the start are written within this time


def record_both(c, pods, seconds, attempt):
    """The folders with the recordings of each node."""
    files = [os.path.join(DATA, "pods", p + ".json") for p in pods]
    recorders = []
    for node in NODES:
        namespace = f"pods-of-{node}-{attempt}"
        c.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        wait_for(f"service account in {namespace}", lambda: c.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), 30)
        recorders.append(Recorder(c, node, namespace, c.path(f"traces-{node}-{attempt}"), seconds, c.path("manifests-" + node)))
    threads = [threading.Thread(target=r.run, args=(files,)) for r in recorders]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for r in recorders:
        assert not r.errors, r.errors
    return [r.out for r in recorders]


def judge(pods, folders):
    """The pods that differ."""
    wrong = []
    for name in pods:
        files = [os.path.join(folder, name + ".txt") for folder in folders]
        done = subprocess.run([sys.executable, TRACE_DIFF, *files, "--node", "=".join(NODES)], capture_output=True, text=True)
        print(done.stdout.strip() or done.stderr.strip(), flush=True)
        if done.returncode != 0:
            wrong.append(name)
    return wrong


def compare_pods(c, pods, seconds):
    """The pods that differ, twice: on a machine short of CPU a kubelet's own caches time out, which it tells in events; what is wrong with a ghost is
    wrong again."""
    wrong = judge(pods, record_both(c, pods, seconds, 1))
    if wrong:
        print("once more:", *wrong, flush=True)
        wrong = judge(wrong, record_both(c, wrong, seconds, 2))
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("pods", nargs="*", default=PODS)
    parser.add_argument("--seconds", type=float, default=70)
    args = parser.parse_args()
    with Cluster(nodes=NODES) as c:
        start_nodes(c, args.ghostfleet)
        faults = compare_start(Start(c.audit, "kubelet-0"), Start(c.audit, "ghost-0"))
        for f in faults:
            print("start:", f)
        print("start of a node:", "differs" if faults else "agrees", flush=True)
        wrong = compare_pods(c, args.pods, args.seconds) if args.pods != ["none"] else []
        objects = compare_objects(object_requests(c.audit, "kubelet-0"), object_requests(c.audit, "ghost-0"))
        for f in objects:
            print("configmaps and secrets:", f)
        faults += objects
        assert c.processes["ghost"].running(), "the ghost ended:\n" + c.processes["ghost"].tail()
        sys.exit(1 if faults or wrong else 0)


if __name__ == "__main__":
    main()
