"""Records what one node does for each pod of tests/data/traces/pods: one recording a pod, cut out of the API server's audit log.

A pod file is JSON: {"about", "pod", "acts": [{"at": SECONDS, "verb": "delete"} or {"at", "verb": "patch", "subresource", "patch"}], "alone": true};
"alone" pods are recorded by themselves, after the others (pulls of one node queue). A pod that names the node of the stored recordings is put on
the node at hand by name; every other one by the scheduler, which a node selector leaves no choice.

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


class PodFile:
    def __init__(self, path, node):
        with open(path) as f:
            data = json.load(f)
        spec = data["pod"]["spec"]
        if "nodeName" in spec:
            spec["nodeName"] = node
        else:
            spec.setdefault("nodeSelector", {})["kubernetes.io/hostname"] = node
        self.pod, self.acts, self.alone = data["pod"], sorted(data["acts"], key=lambda a: a["at"]), data.get("alone", False)
        self.name = self.pod["metadata"]["name"]
        self.created = 0.0


class Recorder:
    """Pods of one node in a namespace of its own; run() blocks until all are recorded."""

    def __init__(self, cluster, node, namespace, out, seconds):
        self.c, self.node, self.out, self.seconds = cluster, node, out, seconds
        self.namespace, self.pods = namespace, f"/api/v1/namespaces/{namespace}/pods"
        self.errors = []

    def call(self, method, path, body=None, content_type="application/json", accepted=()):
        code, answer = self.c.request(method, path, body, content_type)
        if code >= 300 and code not in accepted:
            self.errors.append(f"{self.node}: {method} {path}: {code} {answer!r}"[:300])

    def play(self, file, start):
        time.sleep(max(0, start - time.time()))
        self.call("POST", self.pods, file.pod)
        file.created = time.time()
        for act in file.acts:
            time.sleep(max(0, file.created + act["at"] - time.time()))
            path = f"{self.pods}/{file.name}" + ("/" + act["subresource"] if "subresource" in act else "")
            if act["verb"] == "delete":
                self.call("DELETE", path)
            else:
                self.call("PATCH", path, act["patch"], "application/strategic-merge-patch+json")

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
            self.call("DELETE", f"{self.pods}/{f.name}", {"gracePeriodSeconds": 0}, accepted=(404,))
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
                self.errors.append(f"{self.node}: no request about pod {f.name}")
                continue
            self.trace(os.path.join(self.out, f.name + ".txt"), f.name, rows[f.name], ends[f.name])

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

    def run(self, paths):
        files = [PodFile(p, self.node) for p in paths]
        self.warm()
        for batch in [[f for f in files if not f.alone], *([f] for f in files if f.alone)]:
            if batch:
                self.batch(batch)
