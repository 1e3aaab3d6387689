"""Records what the node does for each pod file: one trace a pod, from the API server's audit log.

usage: record.py KUBECTL KUBECONFIG AUDIT_LOG OUT_DIR POD_FILE... [--seconds 75] [--node kubelet-0] [--at-once 14]

A pod file is named after its pod and may hold other objects before it. Lines in it, all optional:
  # act: SECONDS VERB [FLAGS]   kubectl VERB pod NAME FLAGS, so many seconds after creation
  # kubectl: SECONDS ARGS       any kubectl command; what follows " -p " is one argument
  # wait: SECONDS               created so much later than the others
  # pods: PATTERN               record every pod whose name begins so, as NAME.1.txt, NAME.2.txt, ... (a controller's pods)
  # seconds: N                  record at least so long
  # batch: NAME                 record together with, and only with, the files of that batch
  # after: ARGS                 kubectl command when the batch is over
  # drop: TEXT                  leave out events that hold this (what only the pretending runtime says)
Files without a batch are recorded --at-once at a time. --node replaces the word oracle-0 in files and acts.

The audit log must hold requests and responses of the group system:nodes; only those of the node's own user count. A trace begins with "# pod NAME window SECONDS"; a line is: seconds, verb, path, status; below it the body or,
for an event, its type, reason, count, field path and message (line breaks written \\n); after a status write a line "-> TYPE=STATUS ...": the conditions that the API server has then, those of others too.
Seconds count from the first request about the pod, also the window's, in which it was watched.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import threading
import time
from datetime import datetime

WARM = """apiVersion: v1
kind: Pod
metadata: {name: h-warm, annotations: {%s}}
spec:
  restartPolicy: Never
  containers: [%s]
"""
IMAGES = ["app:1", "app:2", "side:1", "init:1"]


class File:
    def __init__(self, path, node):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        with open(path) as f:
            self.text = f.read().replace("oracle-0", node)
        self.wait = float((self.lines("wait") or [0])[0])
        self.batch = (self.lines("batch") or [""])[0]
        self.pattern = (self.lines("pods") or [""])[0]
        self.seconds = float((self.lines("seconds") or [0])[0])
        self.after = self.lines("after")
        self.drop = self.lines("drop")
        acts = [(x, True) for x in self.lines("act")] + [(x, False) for x in self.lines("kubectl")]
        self.acts = sorted(((float(x.split(" ", 1)[0]), x.split(" ", 1)[1], own) for x, own in acts), key=lambda a: a[0])
        self.created = 0.0

    def lines(self, word):
        return re.findall(rf"^# {word}: (.*)$", self.text, re.M)

    def owns(self, pod):
        return bool(re.match(self.pattern, pod)) if self.pattern else pod == self.name


class Recorder:
    def __init__(self, args):
        self.args = args
        self.base = [args.kubectl, "--kubeconfig", args.kubeconfig]

    def kubectl(self, arguments, stdin=None, quiet=False):
        done = subprocess.run(self.base + arguments, input=stdin, text=True, capture_output=True, timeout=60)
        if done.returncode and not quiet:
            print("kubectl", " ".join(arguments), "->", done.stderr.strip()[:300], file=sys.stderr)
        return done

    def words(self, text):
        text, mark, body = (" " + text).partition(" -p ")
        return text.split() + (["-p", body] if mark else [])

    def play(self, file, start):
        time.sleep(max(0, start + file.wait - time.time()))
        self.kubectl(["create", "-f", "-"], file.text)
        file.created = time.time()
        for at, text, own in file.acts:
            time.sleep(max(0, file.created + at - time.time()))
            words = self.words(text)
            if own:
                words = [words[0], "pod", file.name] + words[1:] + (["--wait=false"] if words[0] == "delete" else [])
            self.kubectl(words)

    def batch(self, files):
        start = time.time()
        offset = os.path.getsize(self.args.audit)
        threads = [threading.Thread(target=self.play, args=(f, start + 0.4 * i)) for i, f in enumerate(files)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        ends = {f.name: f.created + max(self.args.seconds, f.seconds) for f in files}
        time.sleep(max(0, max(ends.values()) - time.time()) + 1)
        self.write(files, offset, ends)
        for f in files:
            self.kubectl(["delete", "-f", "-", "--ignore-not-found", "--wait=false"], f.text, quiet=True)
        pods = [p for p in self.kubectl(["get", "pods", "-o", "name"]).stdout.split() if any(f.owns(p.split("/")[1]) for f in files)]
        if pods:
            self.kubectl(["patch", "--type=merge", "-p", '{"metadata":{"finalizers":null}}'] + pods, quiet=True)
            self.kubectl(["delete", "--ignore-not-found", "--wait=false", "--grace-period=0", "--force"] + pods, quiet=True)
        for f in files:
            for a in f.after:
                self.kubectl(self.words(a))
        time.sleep(6)

    def write(self, files, offset, ends):
        rows = {}
        with open(self.args.audit) as log:
            log.seek(offset)
            for line in log:
                if not line.endswith("\n"):
                    break
                pod, uid, row = self.row(json.loads(line))
                file = next((f for f in files if pod and f.owns(pod)), None)
                dropped = file and row[2] == "events" and any(d in row[4] for d in file.drop)
                if file and not dropped and row[0] <= ends[file.name]:
                    rows.setdefault((file.name, pod), []).append((uid, row))
        rows = {(name, pod, i): life for (name, pod), both in rows.items() for i, life in enumerate(self.lives(both))}
        os.makedirs(self.args.out, exist_ok=True)
        for f in files:
            pods = [key for key in rows if key[0] == f.name]
            if not f.pattern:
                pods = sorted(pods, key=lambda key: len(rows[key]))[-1:]
            pods.sort(key=lambda key: (int((re.match(r"-(\d+)(-|$)", key[1][len(f.name):]) or [0, 0])[1]), rows[key][0][0]))
            for old in os.listdir(self.args.out):
                if re.fullmatch(re.escape(f.name) + r"(\.\d+)?\.txt", old):
                    os.remove(os.path.join(self.args.out, old))
            if not pods:
                print(f.name, "no request seen", file=sys.stderr)
            for i, key in enumerate(pods):
                out = f"{self.args.out}/{f.name}{f'.{i + 1}' if f.pattern else ''}.txt"
                self.trace(out, key[1], rows[key], ends[f.name])
                print(os.path.basename(out), key[1], len(rows[key]), "requests", file=sys.stderr)

    def lives(self, both):
        """Splits the rows of one name by the uids of the pods that had it; a row without uid (a GET) goes with the next one that has it, or the last."""
        out, loose, last = {}, [], None
        for uid, row in both:
            loose.append(row)
            if uid:
                out.setdefault(uid, []).extend(loose)
                loose, last = [], uid
        if loose:
            out.setdefault(last, []).extend(loose)
        return list(out.values())

    def trace(self, path, pod, rows, end):
        first = min(at for at, *_ in rows)
        with open(path, "w") as f:
            print(f"# pod {pod} window {end - first:.1f}", file=f)
            for at, verb, where, code, text in rows:
                print(f"{at - first:7.2f} {verb} {where} {code}" + (f"\n        {text}" if text else ""), file=f)

    def row(self, e):
        """The pod that an audit entry is about, its uid where the request has it, and its line."""
        ref, body = e.get("objectRef", {}), e.get("requestObject") or {}
        if e["verb"] == "watch" or e["stage"] != "ResponseComplete" or e["user"]["username"] != "system:node:" + self.args.node:
            return None, None, None
        full = e.get("responseObject") or body
        if ref.get("resource") == "events":
            about = full.get("involvedObject") or full.get("regarding") or (body.get("involvedObject") if isinstance(body, dict) else None) or {}
            if about.get("kind", "Pod") != "Pod":
                return None, None, None
            pod, uid = about.get("name"), about.get("uid")
            count = full.get("count") or (full.get("series") or {}).get("count") or full.get("deprecatedCount")
            message = (full.get("message") or full.get("note") or "").replace("\n", "\\n")
            text = f"{full.get('type')} {full.get('reason')} x{count} {about.get('fieldPath', '-')}: {message}"
        elif ref.get("resource") == "pods":
            pod, text = ref.get("name"), json.dumps(body, separators=(",", ":")) if body else ""
            status = full.get("status") if ref.get("subresource") == "status" and full.get("kind") == "Pod" else None
            conditions = (status or {}).get("conditions") or []
            if conditions:
                text += "\n        -> " + " ".join(sorted(f"{c['type']}={c['status']}" for c in conditions))
            uid = ((body.get("metadata") or body.get("preconditions") or {}) if isinstance(body, dict) else {}).get("uid")
        elif ref.get("resource") == "serviceaccounts":
            bound = body.get("spec", {}).get("boundObjectRef") or {}
            pod, uid, text = bound.get("name"), bound.get("uid"), ""
        else:
            return None, None, None
        at = datetime.fromisoformat(e["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
        where = ref["resource"] + ("/" + ref["subresource"] if ref.get("subresource") else "")
        return pod, uid, (at, e["verb"], where, e["responseStatus"].get("code"), text)

    def warm(self):
        containers = ", ".join(f'{{name: c{i}, image: "registry.example/{x}"}}' for i, x in enumerate(IMAGES))
        scripts = ", ".join(f'behavior.ghostfleet.dev/c{i}: "exit=0 after=1s"' for i in range(len(IMAGES)))
        self.kubectl(["create", "-f", "-"], WARM % (scripts, containers))
        time.sleep(5)
        self.kubectl(["delete", "pod", "h-warm", "--wait=false", "--grace-period=0", "--force"], quiet=True)
        time.sleep(2)

    def run(self):
        files = [File(p, self.args.node) for p in self.args.files]
        self.warm()
        plain = [f for f in files if not f.batch]
        batches = [plain[i:i + self.args.at_once] for i in range(0, len(plain), self.args.at_once)]
        for name in sorted({f.batch for f in files if f.batch}):
            batches.append([f for f in files if f.batch == name])
        for b in batches:
            print("--", " ".join(f.name for f in b), file=sys.stderr)
            self.batch(b)


parser = argparse.ArgumentParser()
for word in ("kubectl", "kubeconfig", "audit", "out"):
    parser.add_argument(word)
parser.add_argument("files", nargs="+")
parser.add_argument("--seconds", type=float, default=75)
parser.add_argument("--node", default="kubelet-0")
parser.add_argument("--at-once", type=int, default=14)
Recorder(parser.parse_args()).run()
