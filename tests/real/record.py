"""Records what one node does for each pod of tests/data/traces/pods: one recording a pod, cut out of the API server's audit log.

A pod file is JSON: {"about", "pod", "objects": [{"kind", "object"}], "acts": [...], "alone": true, "free": true, "static": true}. Objects (kind: the
plural in the path) are there before the pod; pods among them have run for some seconds. "api" is the path of those that are in no namespace; one of kind
"nodes" is a merge patch of the node. A "static" pod is a manifest in the node's folder; its mirror is what is recorded. An act has "at", seconds after
creation, and "verb":
  delete ["grace"]            the pod; grace 0 takes it away at once
  evict                       the pod, through the API's eviction
  patch "patch" ["subresource"]  the pod, as a strategic merge patch
  create "kind" "object"      another object
  remove "kind" "name"        another object
  node "patch"                the node, as a merge patch
  withdraw                    the manifest of a static pod is taken away
"alone" pods are recorded by themselves, after the others (pulls of one node queue). A pod that names the node of the stored recordings is put on
the node at hand by name; every other one by the scheduler, which a node selector leaves no choice ("free": it has none).

A recording begins with "# pod NAME window SECONDS"; a line is: seconds, verb, path, status; below it the body or, for an event, its type, reason,
count, field path and message (line breaks written \\n); after a status write a line "-> TYPE=STATUS ...": the conditions the API server has then,
those of others too. Seconds count from the first request about the pod. trace_diff.py compares such recordings.
"""
import json
import os
import threading
import time
from datetime import datetime

# Images that were pulled before: a first pull of any image would add its own events and time.
WARM = ["app:1", "app:2", "side:1", "init:1"]
SETTLE = 6  # seconds after the last window in which a node finishes what it does to deleted pods
HEAD_START = 5  # seconds that other pods of a file have before its own


class PodFile:
    def __init__(self, path, node):
        with open(path) as f:
            data = json.load(f)
        self.pod, self.acts, self.alone = data["pod"], sorted(data["acts"], key=lambda a: a["at"]), data.get("alone", False)
        self.objects = data.get("objects", [])
        others = [o["object"] for o in self.objects + self.acts if o.get("kind") == "pods"]
        for spec in [pod["spec"] for pod in [self.pod, *others]]:
            if "nodeName" in spec:
                spec["nodeName"] = node
            elif not data.get("free"):
                spec.setdefault("nodeSelector", {})["kubernetes.io/hostname"] = node
        self.others = [pod["metadata"]["name"] for pod in others]
        self.static = data.get("static", False)
        self.stem = self.pod["metadata"]["name"]
        self.name = f"{self.stem}-{node}" if self.static else self.stem
        self.created = 0.0


class Recorder:
    """Pods of one node in a namespace of its own; run() blocks until all are recorded."""

    def __init__(self, cluster, node, namespace, out, seconds, manifests=None):
        self.c, self.node, self.out, self.seconds, self.manifests = cluster, node, out, seconds, manifests
        self.namespace, self.base = namespace, f"/api/v1/namespaces/{namespace}/"
        self.pods = self.base + "pods"
        self.errors = []

    def call(self, method, path, body=None, content_type="application/json", accepted=()):
        code, answer = self.c.request(method, path, body, content_type)
        if code >= 300 and code not in accepted:
            self.errors.append(f"{self.node}: {method} {path}: {code} {answer!r}"[:300])

    def play(self, file, start):
        time.sleep(max(0, start - time.time()))
        for o in file.objects:
            if o["kind"] == "nodes":
                self.patch_node(o["object"])
            else:
                self.call("POST", o.get("api", self.base) + o["kind"], o["object"])
        if any(o["kind"] in ("pods", "nodes") for o in file.objects):
            time.sleep(HEAD_START)
        if file.static:
            self.write_manifest(file)
        else:
            self.call("POST", self.pods, file.pod)
        file.created = time.time()
        for act in file.acts:
            time.sleep(max(0, file.created + act["at"] - time.time()))
            self.act(file, act)

    def patch_node(self, patch):
        self.call("PATCH", "/api/v1/nodes/" + self.node, patch, "application/merge-patch+json")

    def manifest_path(self, file):
        return os.path.join(self.manifests, file.stem + ".json")

    def write_manifest(self, file):
        file.pod["metadata"]["namespace"] = self.namespace
        hidden = os.path.join(self.manifests, "." + file.stem)
        with open(hidden, "w") as f:
            json.dump(file.pod, f)
        os.rename(hidden, self.manifest_path(file))

    def act(self, file, act):
        path = f"{self.pods}/{file.name}" + ("/" + act["subresource"] if "subresource" in act else "")
        if act["verb"] == "delete":
            self.call("DELETE", path, {"gracePeriodSeconds": act["grace"]} if "grace" in act else None)
        elif act["verb"] == "evict":
            self.call("POST", path + "/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": file.name, "namespace": self.namespace}})
        elif act["verb"] == "patch":
            self.call("PATCH", path, act["patch"], "application/strategic-merge-patch+json")
        elif act["verb"] == "create":
            self.call("POST", self.base + act["kind"], act["object"])
        elif act["verb"] == "remove":
            self.call("DELETE", f"{self.base}{act['kind']}/{act['name']}")
        elif act["verb"] == "withdraw":
            os.unlink(self.manifest_path(file))
        elif act["verb"] == "node":
            self.patch_node(act["patch"])
        else:
            self.errors.append(f"{file.name}: unknown verb {act['verb']}")

    def batch(self, files):
        start, offset = time.time(), os.path.getsize(self.c.audit)
        threads = [threading.Thread(target=self.play, args=(f, start + 0.4 * i)) for i, f in enumerate(files)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        ends = {f.name: f.created + self.seconds for f in files}
        time.sleep(max(0, max(ends.values()) - time.time()) + 1)
        self.write(files, offset, ends)
        for f in files:
            self.call("PATCH", f"{self.pods}/{f.name}", {"metadata": {"finalizers": None}}, "application/merge-patch+json", accepted=(404, 422))
            for name in [f.name, *f.others]:
                self.call("DELETE", f"{self.pods}/{name}", {"gracePeriodSeconds": 0}, accepted=(404,))
        time.sleep(SETTLE)

    def write(self, files, offset, ends):
        rows = {f.name: [] for f in files}
        with open(self.c.audit) as log:
            log.seek(offset)
            for line in log:
                if not line.endswith("\n"):
                    break
                pod, row = self.row(json.loads(line))
                if pod in rows and row[0] <= ends[pod]:
                    rows[pod].append(row)
        os.makedirs(self.out, exist_ok=True)
        for f in files:
            if not rows[f.name]:
                print(f"{self.node}: no request about pod {f.name}", flush=True)
                continue
            self.trace(os.path.join(self.out, f.stem + ".txt"), f.name, rows[f.name], ends[f.name])

    def trace(self, path, pod, rows, end):
        first = min(at for at, *_ in rows)
        with open(path, "w") as f:
            print(f"# pod {pod} window {end - first:.1f}", file=f)
            for at, verb, where, code, text in rows:
                text = text.replace(self.namespace, "default")  # the only name that differs between the nodes, but their own
                print(f"{at - first:7.2f} {verb} {where} {code}" + (f"\n        {text}" if text else ""), file=f)

    def row(self, e):
        """The pod that an audit entry is about, and its line."""
        ref, body = e.get("objectRef", {}), e.get("requestObject") or {}
        if e["verb"] == "watch" or e["stage"] != "ResponseComplete" or e["user"]["username"] != "system:node:" + self.node:
            return None, None
        if ref.get("resource") == "events":
            pod, text = self.event(e.get("responseObject") or body, body)
        elif ref.get("resource") == "pods":
            pod, text = ref.get("name"), json.dumps(body, separators=(",", ":")) if body else ""
            text += self.conditions(e) if ref.get("subresource") == "status" else ""
        elif ref.get("resource") == "serviceaccounts":
            pod, text = (body.get("spec", {}).get("boundObjectRef") or {}).get("name"), ""
        else:
            return None, None
        at = datetime.fromisoformat(e["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
        where = ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else "")
        return pod, (at, e["verb"], where, e["responseStatus"].get("code"), text)

    @staticmethod
    def event(full, body):
        about = full.get("involvedObject") or body.get("involvedObject") or {}
        if about.get("kind", "Pod") != "Pod":
            return None, ""
        message = (full.get("message") or "").replace("\n", "\\n")
        return about.get("name"), f"{full.get('type')} {full.get('reason')} x{full.get('count')} {about.get('fieldPath', '-')}: {message}"

    @staticmethod
    def conditions(e):
        full = e.get("responseObject") or {}
        conditions = full.get("status", {}).get("conditions") if full.get("kind") == "Pod" else None
        return "\n        -> " + " ".join(sorted(f"{c['type']}={c['status']}" for c in conditions)) if conditions else ""

    def warm(self):
        containers = [{"name": f"c{i}", "image": "registry.example/" + image} for i, image in enumerate(WARM)]
        scripts = {"behavior.ghostfleet.dev/" + c["name"]: "exit=0 after=1s" for c in containers}
        self.call("POST", self.pods, {"metadata": {"name": "warm", "annotations": scripts}, "spec": {"restartPolicy": "Never", "containers": containers}})
        time.sleep(5)
        self.call("DELETE", self.pods + "/warm", {"gracePeriodSeconds": 0}, accepted=(404,))
        time.sleep(2)

    def run(self, paths, at_once=20):
        files = [PodFile(p, self.node) for p in paths]
        self.warm()
        together = [f for f in files if not f.alone]
        for batch in [together[i:i + at_once] for i in range(0, len(together), at_once)] + [[f] for f in files if f.alone]:
            self.batch(batch)
