#!/usr/bin/env python3
"""What people type: kubectl of several versions against the embedded control plane with a small fleet.

usage: kubectl_test.py GHOSTFLEET [--all | KUBECTL...]     without: the oldest and the newest that are found, and the one built for the tests
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import urllib.request

from plane import Plane

NODES = 5
APP = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NS}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "registry.example/app:1", resources: {requests: {cpu: 100m}}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: NS}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: NS}
data: {a: b}
"""

# Command after `kubectl -n NS`, then what its output must match (None: it must fail). {f} is a file with APP, {g} the same with image app:2 and 4 replicas.
# What a command reads from its input is "typed". PORT-FORWARD TARGET PORT asks what answers behind a forwarded port.
STEPS = [
    ("version", r"Server Version.*1\.36"),
    ("get nodes", r"t-0\s+Ready\s+<none>.*v1\.36"),
    ("get nodes -o wide", r"INTERNAL-IP.*OS-IMAGE"),
    ("get node t-1 -o json", r'"kind": "Node"'),
    ("get nodes --sort-by=.metadata.name", r"t-4"),
    ("describe node t-0", r"(?s)Conditions:.*Ready.*True.*KubeletReady.*Capacity:.*Allocatable:"),
    ("api-resources", r"(?m)^deployments\s+deploy\s+apps/v1\s+true\s+Deployment"),
    ("api-versions", r"(?m)^apps/v1$"),
    ("explain pod.spec.containers", r"(?s)FIELD.*containers.*image"),
    ("explain deployment", r"(?s)KIND:\s+Deployment.*VERSION:\s+(apps/)?v1"),
    ("apply -f {f}", r"deployment.apps/web created"),
    ("rollout status deployment/web --timeout=60s", r"successfully rolled out"),
    ("wait --for=condition=Available deployment/web --timeout=60s", r"condition met"),
    ("get deployments", r"web\s+3/3\s+3\s+3"),
    ("get pods -o wide", r"web-\w+-\w+\s+1/1\s+Running\s+0\s+\S+\s+10\."),
    ("get all", r"(?s)pod/web-.*service/web.*deployment.apps/web.*replicaset.apps/web-"),
    ("describe deployment web", r"(?s)Replicas:\s+3 desired.*NewReplicaSet:\s+web-"),
    ("describe pods -l app=web", r"Status:\s+Running"),
    ("apply -f {f}", r"deployment.apps/web unchanged"),
    ("diff -f {f}", r"^$"),
    ("apply -f {g}", r"deployment.apps/web configured"),
    ("rollout status deployment/web --timeout=60s", r"successfully rolled out"),
    ("rollout history deployment/web", r"(?s)REVISION.*1.*2"),
    ("rollout undo deployment/web", r"rolled back"),
    ("rollout restart deployment/web", r"restarted"),
    ("rollout status deployment/web --timeout=60s", r"successfully rolled out"),
    ("scale deployment web --replicas=2", r"scaled"),
    ("wait --for=jsonpath={{.status.readyReplicas}}=2 deployment/web --timeout=60s", r"condition met"),
    ("set image deployment/web c=registry.example/app:3", r"image updated"),
    ("label configmap settings colour=red", r"labeled"),
    ("get configmap -l colour=red", r"settings"),
    ("annotate configmap settings note=x", r"annotated?"),
    ("patch configmap settings -p {{\"data\":{{\"a\":\"c\"}}}}", r"patched"),
    ("get configmap settings -o jsonpath={{.data.a}}", r"^c$"),
    ("edit configmap settings", r"edited"),
    ("get configmap settings -o yaml", r"edited: \"?yes"),
    ("create deployment made --image=registry.example/app:1 --replicas=1", r"created"),
    ("expose deployment made --port=80", r"exposed"),
    ("create configmap cm --from-literal=k=v", r"created"),
    ("create secret generic s --from-literal=k=v", r"created"),
    ("create serviceaccount sa", r"created"),
    ("create token sa", r"^ey"),
    ("create job once --image=registry.example/app:1", r"created"),
    ("wait --for=condition=complete job/once --timeout=60s", r"condition met"),
    ("get jobs", r"once\s+(Complete\s+)?1/1"),
    ("run lone --image=registry.example/app:1 --port=8080", r"created"),
    ("wait --for=condition=Ready pod/lone --timeout=60s", r"condition met"),
    ("get events", r"Started"),
    ("logs lone", r"\S"),
    ("logs lone --tail=1 --timestamps", r"^\d{4}-\d\d-\d\dT\S+Z .*\n$"),
    ("logs -f job/once --pod-running-timeout=30s", r"\S"),
    ("logs nosuch", None),
    ("exec lone -- echo hello world", r"^hello world$"),
    ("exec lone -- sh -c {exit}", None),
    ("exec -i lone -- cat", r"^typed$"),
    ("cp {f} lone:/tmp/f.yaml", r""),
    ("exec lone -- grep kind /tmp/f.yaml", r"kind: Deployment"),
    ("cp lone:/tmp/f.yaml {copy}", r""),
    ("get --raw /api/v1/nodes/t-0/proxy/healthz", r"^ok$"),
    ("PORT-FORWARD pod/lone 8080", r"lone port 8080"),
    ("delete pod lone", r"deleted"),
    ("taint node t-2 example.com/x=y:NoSchedule", r"tainted"),
    ("describe node t-2", r"Taints:\s+example.com/x=y:NoSchedule"),
    ("taint node t-2 example.com/x-", r"untainted"),
    ("cordon t-3", r"cordoned"),
    ("get node t-3", r"Ready,SchedulingDisabled"),
    ("drain t-4 --ignore-daemonsets --force --delete-emptydir-data --timeout=90s", r"drained"),
    ("uncordon t-3 t-4", r"uncordoned"),
    ("auth can-i create pods", r"yes"),
    ("apply --server-side --force-conflicts -f {f}", r"serverside-applied"),
    ("rollout status deployment/web --timeout=60s", r"successfully rolled out"),  # a status written between would be a conflict
    ("replace -f {f}", r"replaced"),
    ("delete -f {f}", r"deleted"),
    ("wait --for=delete pod -l app=web --timeout=60s", r""),
    ("get nodes --watch-only --request-timeout=2s", r""),
]

EDITOR = "#!/bin/sh\nsed -i 's/^data:/data:\\n  edited: \"yes\"/' \"$1\"\n"


def versions():
    found = {}
    for folder in (os.environ.get("GHOSTFLEET_REAL_BIN"), os.environ.get("KUBEBUILDER_ASSETS")):
        if folder and os.access(os.path.join(folder, "kubectl"), os.X_OK):
            found[os.path.join(folder, "kubectl")] = 1
    on_path = shutil.which("kubectl")
    if on_path:
        found.update({k: 1 for k in sorted(glob.glob(os.path.join(os.path.dirname(os.path.realpath(on_path)), "kubectl.1.*")))})
        if len(found) == 0:
            found[on_path] = 1
    return list(found)


def port_forward(command, target, port):
    """Forwards any free port and answers what a GET there says."""
    child = subprocess.Popen([*command, "port-forward", target, f":{port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    try:
        line = child.stdout.readline()  # Forwarding from 127.0.0.1:45671 -> 8080
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if not found:
            return 1, line, child.stderr.read()
        answers = []
        for _ in range(3):  # several connections one after the other
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/", timeout=30) as answer:
                answers.append(answer.read().decode())
        return 0, "".join(answers), ""
    except OSError as error:
        return 1, "", str(error)
    finally:
        child.terminate()
        child.wait(20)


def run_version(plane, kubectl, index):
    ns = f"v{index}"
    files = {}
    for name, text in (("f", APP), ("g", APP.replace("app:1", "app:2").replace("replicas: 3", "replicas: 4"))):
        files[name] = os.path.join(plane.home, f"{name}{index}.yaml")
        with open(files[name], "w") as f:
            f.write(text.replace("NS", ns))
    files.update(copy=os.path.join(plane.home, f"copy{index}.yaml"), exit="exit 3")
    editor = os.path.join(plane.home, "editor.sh")
    with open(editor, "w") as f:
        f.write(EDITOR)
    os.chmod(editor, 0o755)
    env = {**plane.env, "KUBE_EDITOR": editor, "HOME": plane.home}
    subprocess.run([kubectl, "--kubeconfig", plane.kubeconfig, "create", "namespace", ns], check=True, capture_output=True, env=env)
    failed = 0
    for text, pattern in STEPS:
        words = [w.format(**files) for w in text.split(" ")]
        command = [kubectl, "--kubeconfig", plane.kubeconfig, "-n", ns]
        try:
            if words[0] == "PORT-FORWARD":
                done = subprocess.CompletedProcess(words, *port_forward(command, *words[1:]))
            else:
                done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, env=env, input="typed\n")
        except subprocess.TimeoutExpired:
            print(f"FAIL {os.path.basename(kubectl)} {text}: no answer in 120 s", flush=True)
            failed += 1
            continue
        if pattern is None:
            good = done.returncode != 0
        else:
            good = (done.returncode == 0 or "--watch-only" in text) and re.search(pattern, done.stdout) is not None
        if not good:
            failed += 1
            print(f"FAIL {os.path.basename(kubectl)} {text}: exit code {done.returncode}\n{done.stdout[-600:]}\n{done.stderr[-600:]}", flush=True)
    subprocess.run([kubectl, "--kubeconfig", plane.kubeconfig, "delete", "namespace", ns, "--timeout=60s"], check=True, capture_output=True, env=env)
    print(f"{os.path.basename(kubectl)}: {len(STEPS) - failed} of {len(STEPS)} commands as expected", flush=True)
    return failed


def main():
    kubectls = sys.argv[2:]
    if not kubectls or kubectls == ["--all"]:
        found = versions()
        kubectls = found if kubectls else list(dict.fromkeys(found[:2] + found[-1:]))
    if not kubectls:
        print("SKIPPED: no kubectl on this machine")
        sys.exit(77)
    with Plane(sys.argv[1], nodes=NODES) as plane:
        failed = sum(run_version(plane, k, i) for i, k in enumerate(kubectls))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
