#!/usr/bin/env python3
"""Wrong flags, files, credentials and requests: a clear message, the right exit code, and nothing half-made.

usage: bad_input_test.py GHOSTFLEET
"""
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time

from plane import Plane

FAILED = []


def check(what, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {what} {detail if not condition else ''}", flush=True)
    if not condition:
        FAILED.append(what)


def run(plane, *words, timeout=60, env=None):
    done = subprocess.run([plane.ghostfleet, *words], capture_output=True, text=True, timeout=timeout, env={**plane.env, **(env or {})}, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def expect(plane, what, words, code, pattern, **kwargs):
    got, text = run(plane, *words, **kwargs)
    check(what, got == code and re.search(pattern, text), f"exit code {got}, wanted {code} and /{pattern}/: {text[:500]}")


def flags(p):
    fleet = ["fleet", "--kubeconfig", p.kubeconfig, "--for", "1s"]
    expect(p, "no subcommand", [], 2, r"subcommand")
    expect(p, "unknown flag", ["up", "--nods", "3"], 2, r"^error: .*--nods")
    expect(p, "a flag without its value", ["up", "--nodes"], 2, r"^error: .*--nodes")
    expect(p, "a value that is none of those allowed", ["up", "--scheduler", "maybe"], 2, r"^error: --scheduler: maybe not in")
    for flag in ("-f", "--image-rules", "--behavior-rules"):
        expect(p, f"{flag} names no file", ["fleet", "--kubeconfig", p.kubeconfig, flag, p.home + "/nosuch"], 2, rf"^error: {flag}: reading .*nosuch: No such file")
    expect(p, "agent: --image-rules names no file", ["agent", "--kubeconfig", p.kubeconfig, "--node-name", "x", "--image-rules", "/nosuch"], 2, r"^error: --image-rules: reading /nosuch")
    expect(p, "agent: no kubeconfig", ["agent", "--kubeconfig", "/nosuch", "--node-name", "x"], 2, r"^error: .*/nosuch: No such file")
    expect(p, "down: no kubeconfig", ["down", "--kubeconfig", "/nosuch", "--fleet", "x"], 2, r"^error: .*/nosuch: No such file")
    expect(p, "count 0", [*fleet, "--nodes", "0"], 2, r"--nodes 0: from 1 to")
    expect(p, "count -1", [*fleet, "--nodes=-1"], 2, r"--nodes -1: from 1 to")
    expect(p, "count 10 million", [*fleet, "--nodes", "10000000"], 2, r"--nodes 10000000: from 1 to")
    expect(p, "count ten", [*fleet, "--nodes", "ten"], 2, r"a number is expected, e.g. 1000 or 10k")
    expect(p, "unknown profile", [*fleet, "--nodes", "1", "--profile", "p5.48xlage"], 2, r"did you mean p5.48xlarge\?")
    expect(p, "unknown profile file", [*fleet, "--nodes", "1", "--profile", "./nosuch.yaml"], 2, r"reading ./nosuch.yaml: No such file")
    expect(p, "no kubeconfig", ["fleet", "--kubeconfig", p.home + "/nosuch", "--nodes", "1"], 2, r"nosuch: No such file")
    expect(p, "no context", [*fleet, "--context", "other", "--nodes", "1"], 2, r"no context named other \(there are: ")
    expect(p, "name template without index", [*fleet, "--nodes", "3", "--node-name", "same"], 2, r"\{index\}")
    expect(p, "fleet name", [*fleet, "--nodes", "1", "--name", "Not_A_Label"], 2, r"a DNS label is expected")
    expect(p, "--for", ["up", "--nodes", "1", "--for", "soon"], 2, r"a duration like 2m")
    expect(p, "grace period", ["controlplane", "--node-monitor-grace-period", "soon"], 2, r"--node-monitor-grace-period soon: a duration of a second or more")
    expect(p, "capacity", ["agent", "--kubeconfig", p.kubeconfig, "--node-name", "x", "--capacity", "cpu=lots"], 2, r"\"lots\" is no quantity")
    agent = ["agent", "--kubeconfig", p.kubeconfig, "--node-name", "x", "--capacity", "cpu=1,memory=1Gi,pods=1"]
    expect(p, "a plugin folder that is relative", [*agent, "--device-plugin-dir", "plugins"], 2, r"^error: --device-plugin-dir plugins: an absolute path")
    expect(p, "a kubelet's root that is relative", [*agent, "--kubelet-root", "rel"], 2, r"^error: --kubelet-root rel: an absolute path")
    expect(p, "a kubelet's root and a plugin folder", [*agent, "--kubelet-root", "/x", "--device-plugin-dir", "/y"], 2, r"^error: --kubelet-root and --device-plugin-dir: give one of them")
    expect(p, "PodResources without plugins", [*agent, "--pod-resources-socket", "/x"], 2, r"^error: --pod-resources-socket: --device-plugin-dir or --kubelet-root is needed")
    expect(p, "a plugin folder whose socket has too long a path", [*agent, "--device-plugin-dir", p.home + "/" + "d" * 110], 2, r"has \d+ bytes; a unix socket's has at most 107")
    expect(p, "a plugin without devices", ["device-plugin", "nvidia", "--count", "0"], 2, r"--count")
    expect(p, "a plugin of no kind", ["device-plugin", "nvidea", "--count", "1"], 2, r"did you mean nvidia\?")
    expect(p, "a plugin in a relative folder", ["device-plugin", "efa", "--count", "1", "--dir", "plugins"], 2, r"^error: --dir plugins: an absolute path")
    expect(p, "a plugin in no folder", ["device-plugin", "efa", "--count", "1", "--dir", p.home + "/nosuch"], 2, r"^error: --dir .*/nosuch: there is no such folder")
    expect(p, "a MIG layout", ["device-plugin", "nvidia", "--count", "1", "--mig-strategy", "single", "--mig-layout", "1g.10gb"], 2, r"--mig-layout 1g.10gb: PROFILE=COUNT")
    expect(p, "a topology policy without plugins", [*agent, "--topology-manager-policy", "restricted"], 2, r"--device-plugin-dir or --kubelet-root is needed with them")
    expect(p, "a topology policy that is none", [*agent, "--topology-manager-policy", "strict"], 2, r"strict not in .*single-numa-node")
    expect(p, "a MIG layout without a strategy", ["device-plugin", "nvidia", "--count", "1", "--mig-layout", "1g.10gb=7"], 2, r"--mig-layout: --mig-strategy single or mixed is needed")
    expect(p, "a GPU of no kind", ["device-plugin", "nvidia", "--count", "1", "--gpu", "banana"], 2, r"^error: --gpu: banana not in")
    expect(p, "shared names of what is not shared", ["device-plugin", "nvidia", "--count", "1", "--rename-by-default"], 2, r"--rename-by-default: --replicas of at least 2")
    expect(p, "broken devices in no folder", ["device-plugin", "efa", "--count", "1", "--dir", p.home, "--unhealthy-file", "/nosuch/x"], 2, r"--unhealthy-file /nosuch/x: there is no folder /nosuch")
    with open(p.home + "/broken.txt", "w") as f:
        f.write("example.com/radio\n")
    expect(p, "broken devices that make no sense", ["device-plugin", "efa", "--count", "1", "--dir", p.home, "--unhealthy-file", p.home + "/broken.txt"], 2, r"--unhealthy-file: .*broken.txt: unhealthy devices: \"example.com/radio\": RESOURCE=NUMBER")
    expect(p, "a registry's users that are not there", ["image", "pull", "127.0.0.1:1/a", "--docker-config", "/nosuch"], 2, r"^error: --docker-config: .*/nosuch")
    expect(p, "authorities that are not there", ["image", "pull", "127.0.0.1:1/a", "--ca-file", "/nosuch"], 2, r"^error: --ca-file: reading /nosuch: No such file")
    expect(p, "authorities that are none", ["image", "pull", "127.0.0.1:1/a", "--ca-file", __file__], 2, r"--ca-file .*: it holds no certificate in PEM")
    with open(p.home + "/absent.yaml", "w") as f:
        f.write("absentPlugins: [nvidia.com/gpuu]\n")
    expect(p, "an absent plugin that nobody has", [*agent, "--devices", p.home + "/absent.yaml"], 2, r'absentPlugins: "nvidia.com/gpuu": no device plugin gives it; there are: none')
    port = p.server.rsplit(":", 1)[1]
    expect(p, "port in use", ["up", "--nodes", "1", "--name", "other", "--port", port, "--for", "1s"], 1, rf"{port}.*in use")
    expect(p, "kubeconfig of somebody else", ["up", "--nodes", "1", "--name", "other", "--port", "0", "--kubeconfig", __file__, "--for", "1s"], 1, r"was not written by ghostfleet")
    expect(p, "summary on a full disk", [*fleet, "--nodes", "1", "--name", "full", "--summary", "/dev/full/x"], 2, r"--summary")
    expect(p, "summary in no folder", [*fleet, "--nodes", "1", "--name", "full", "--summary", "/nosuch/x"], 2, r"--summary /nosuch/x: there is no folder /nosuch")
    expect(p, "summary is a folder", [*fleet, "--nodes", "1", "--name", "full", "--summary", p.home], 2, r"this is a folder, a file is expected")
    expect(p, "a flag of an unset variable", [*fleet, "--nodes", "1", "--name", "full", "--vpc", ""], 2, r"--vpc: it is empty; a value is expected")
    expect(p, "built-in, mistyped", [*fleet, "--nodes", "1", "--name", "full", "--images", "builtin"], 2, r"--images \(a file, or built-in\): reading builtin")


def networks(p):
    fleet = ["fleet", "--kubeconfig", p.kubeconfig, "--for", "1s", "--nodes", "1", "--name", "net"]

    def file(name, text):
        path = os.path.join(p.home, name)
        with open(path, "w") as f:
            f.write(text)
        return path
    head = "apiVersion: ghostfleet.dev/v1alpha1\nkind: {}\nmetadata: {{name: x}}\nspec:\n"
    vpc = file("vpc.yaml", head.format("VPC") + "  cidrs: [10.0.0.0/16]\n  subnets: [{name: a, zone: us-west-2a, cidr: 10.0.0.0/20}]\n")
    bad = file("bad.yaml", head.format("VPC") + "  cidrs: [10.0.0.0/16]\n  subnets: [{name: a, zone: us-west-2a, cidr: 10.9.0.0/20}]\n")
    expect(p, "no VPC file", [*fleet, "--vpc", "/nosuch.yaml"], 2, r"^error: --vpc: reading /nosuch.yaml: No such file")
    expect(p, "a VPC file with a mistake", [*fleet, "--vpc", bad], 2, r"bad.yaml:6: .*10.9.0.0/20")
    expect(p, "a zone without a subnet", [*fleet, "--vpc", vpc], 2, r"zone us-west-2b: VPC x has no subnet in it, but in us-west-2a")
    expect(p, "an agent without interfaces", ["agent", "--kubeconfig", p.kubeconfig, "--node-name", "x", "--capacity", "cpu=1", "--vpc", vpc], 2, r"--vpc: --profile is needed")
    groups = "  groups: [{count: 1, profile: m5.large, network: {ipam: vpc}}]\n"
    expect(p, "a group on no network", ["fleet", "--kubeconfig", p.kubeconfig, "-f", file("f1.yaml", head.format("Fleet") + groups)], 2, r"f1.yaml:5: spec.groups\[0\].network.ipam: vpc: spec.network .* is needed")
    wrong = "  network: {ipam: vpc, file: bad.yaml}\n" + groups
    expect(p, "a fleet file with a bad VPC file", ["fleet", "--kubeconfig", p.kubeconfig, "-f", file("f2.yaml", head.format("Fleet") + wrong)], 2, r"(?s)f2.yaml:5: spec.network.file: \"bad.yaml\".*bad.yaml:6: ")


def images(p):
    pull = ["image", "pull", "registry.example/app"]
    expect(p, "image: a word too many", ["image", "ls", "WRONG"], 2, r"^error: ghostfleet image ls does not take WRONG; ")
    expect(p, "image: a subcommand that is none", ["image", "pul"], 2, r'^error: "pul" is no subcommand of ghostfleet image; did you mean pull\?')
    expect(p, "an image that is none", ["image", "pull", "Not/Valid"], 2, r'image "Not/Valid": .* is no repository')
    expect(p, "a puller that is none", [*pull, "--puller", "fast"], 2, r"fast not in")
    expect(p, "half a platform", [*pull, "--platform", "linux"], 2, r"OS/ARCHITECTURE is expected")
    expect(p, "chunks of a byte", [*pull, "--concurrent-download-chunk-size", "1"], 2, r"64kb at least")
    expect(p, "a stall that is no duration", [*pull, "--stall-timeout", "soon"], 2, r"--stall-timeout soon: a duration")
    expect(p, "no docker config", [*pull, "--docker-config", "/nosuch"], 2, r"reading /nosuch: No such file")
    expect(p, "an image that is not there", ["image", "rm", "registry.example/app", "--image-store", p.home + "/images"], 1, r"registry.example/app:latest is not in")


def files(p):
    path = os.path.join(p.home, "fleet.yaml")
    with open(path, "w") as f:
        f.write("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n  groups:\n  - {count: 1, profil: m5.large}\n")
    expect(p, "fleet file", ["fleet", "--kubeconfig", p.kubeconfig, "-f", path], 2, r"fleet.yaml:6: spec.groups\[0\].profil: unknown field; did you mean profile\?")
    with open(path, "w") as f:
        f.write("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n  groups:\n  - {cout: 1, profile: m5.large}\n")
    code, out = run(p, "fleet", "--kubeconfig", p.kubeconfig, "-f", path)
    check("a mistyped field is told once", code == 2 and out.count("error:") == 1 and "spec.groups[0].cout: unknown field; did you mean count?" in out, out)
    with open(path, "w") as f:
        f.write("kind: Deployment\nspec: {replicas: 3, groups: 4}\n")
    code, out = run(p, "fleet", "--kubeconfig", p.kubeconfig, "-f", path)
    check("another kind of file: one complaint a mistake", code == 2 and "one of Fleet is expected" in out and "replicas" not in out, out)
    with open(path, "w") as f:
        f.write("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n  groups:\n  - {profile: m5.large}\n  imageRules:\n  - {match: a}\n")
    expect(p, "complaints in the order of the file", ["fleet", "--kubeconfig", p.kubeconfig, "-f", path], 2,
           r"fleet.yaml:6: spec.groups\[0\].count: is required\n.*fleet.yaml:8: spec.imageRules\[0\]: pull or error is expected")
    head = "apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: x}\nspec:\n"
    group = "  groups:\n  - {count: 1, profile: m5.large}\n"
    for what, text, pattern in (
        ("a key twice", head + group + "  seed: 1\n  seed: 2\n", r'fleet.yaml:8: key "seed" is there twice'),
        ("a second document", head + group + "---\n" + head + group, r"fleet.yaml:7: a second document begins here"),
        ("two groups of one name", head + group + "  - {count: 1, profile: m5.large}\n", r"fleet.yaml:7: spec.groups\[1\].name: its nodes would be named as those of groups\[0\]"),
        ("a rule that makes no sense", head + "  behaviorRules:\n  - behavior: {after: soon, exit: {0: 0.5}}\n" + group,
         r"fleet.yaml:6: spec.behaviorRules\[0\].behavior.exit: .*the probabilities make 0.5, 1 is expected\n.*fleet.yaml:6: spec.behaviorRules\[0\].behavior.after: .soon.: not a duration"),
        ("a histogram that is not there", head + "  histograms: {runs: nosuch.txt}\n" + group, r"fleet.yaml:5: spec.histograms.runs: nosuch.txt: .*No such file"),
    ):
        with open(path, "w") as f:
            f.write(text)
        expect(p, what, ["fleet", "--kubeconfig", p.kubeconfig, "-f", path], 2, pattern)
    with open(path, "w") as f:
        f.write("a: [\n")
    expect(p, "no YAML", ["fleet", "--kubeconfig", p.kubeconfig, "-f", path], 2, r"fleet.yaml")


def command_line(p):
    expect(p, "a subcommand that is none", ["fleeet", "--nodes", "3"], 2, r'"fleeet" is no subcommand; did you mean fleet\?')
    expect(p, "no subcommand", [], 2, r"a subcommand is needed; there are: up, fleet")
    expect(p, "a flag that is none", ["fleet", "--node", "3"], 2, r"ghostfleet fleet does not take --node; did you mean --nodes\?")
    check("--version", run(p, "--version")[0] == 0)
    expect(p, "an address that is none", ["agent", "--kubeconfig", p.kubeconfig, "--node-name", "a", "--node-ip", "300.1.1.1"], 2, r"--node-ip .300.1.1.1.: an IPv4 address")
    folder = os.path.join(p.home, "profiles")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "bad.yaml"), "w") as f:
        f.write("kind: NodeProfile\nmetadata: {name: bad}\nspec: {cpu: many, memoryMiB: 1024}\n")
    code, out = run(p, "profiles")
    check("a bad profile is named and hides no other", code == 2 and "trn2.48xlarge" in out and 'bad.yaml:3: spec.cpu: "many"' in out, out[-400:])
    os.remove(os.path.join(folder, "bad.yaml"))


def credentials(p):
    text = open(p.kubeconfig).read()

    def variant(name, edit):
        path = os.path.join(p.home, name)
        with open(path, "w") as f:
            f.write(edit(text))
        return ["fleet", "--kubeconfig", path, "--nodes", "1", "--name", name, "--for", "1s"]

    token_only = re.sub(r"\n    client-certificate-data:.*\n    client-key-data:.*", "", text)
    expect(p, "wrong token", variant("badtoken", lambda t: re.sub(r"token: .*", "token: wrong", token_only)), 3, r"(?i)unauthorized|401")
    other_ca = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=other", "-keyout", "/dev/null"],
                              capture_output=True, check=True).stdout
    import base64
    expect(p, "wrong CA", variant("badca", lambda t: re.sub(r"certificate-authority-data: .*", "certificate-authority-data: " + base64.b64encode(other_ca).decode(), t)), 3,
           r"(?i)certificate")
    check("no secret in the message", "wrong" not in run(p, *variant("badtoken", lambda t: re.sub(r"token: .*", "token: wrong", token_only)))[1].replace("wrong token", ""))
    expect(p, "server not there", variant("gone", lambda t: re.sub(r"server: .*", "server: https://127.0.0.1:1", t)), 3, r"127.0.0.1:1.*refused")
    p.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "weak"}})
    token = p.request("POST", "/api/v1/namespaces/default/serviceaccounts/weak/token", {"spec": {"expirationSeconds": 3600}})[1]["status"]["token"]
    expect(p, "forbidden", variant("weak", lambda t: re.sub(r"token: .*", "token: " + token, token_only)), 3, r"(?i)cannot (list|create|get|watch).*nodes")


def two_fleets(p):
    first = subprocess.Popen([p.ghostfleet, "fleet", "--kubeconfig", p.kubeconfig, "--nodes", "2", "--name", "twice"], stdout=subprocess.DEVNULL, env=p.env)
    try:
        p.wait("first fleet runs", lambda: "twice" in run(p, "status")[1], 20)
        expect(p, "two fleets of one name", ["fleet", "--kubeconfig", p.kubeconfig, "--nodes", "2", "--name", "twice", "--for", "1s"], 1, r"runs already \(process \d+, ghostfleet fleet\)")
        expect(p, "down of a running fleet", ["down", "--kubeconfig", p.kubeconfig, "--fleet", "twice"], 1, r"fleet twice runs \(process \d+\): stop it first")
        expect(p, "the name of an `up`", ["fleet", "--kubeconfig", p.kubeconfig, "--nodes", "2", "--name", "t", "--for", "1s"], 1, r"a fleet named t runs already")
    finally:
        first.terminate()
        first.wait()


def rights(p):
    """A removal that may not be finished is not begun."""
    run(p, "fleet", "--kubeconfig", p.kubeconfig, "--nodes", "2", "--name", "half", "--for", "5s")
    p.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "half"}})
    p.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "half"}, "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "delete"]}, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]})
    p.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "half"}, "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"}, "subjects": [{"kind": "ServiceAccount", "name": "half", "namespace": "default"}]})
    token = p.request("POST", "/api/v1/namespaces/default/serviceaccounts/half/token", {"spec": {"expirationSeconds": 3600}})[1]["status"]["token"]
    text = re.sub(r"\n    client-certificate-data:.*\n    client-key-data:.*", "", open(p.kubeconfig).read())
    path = os.path.join(p.home, "half")
    with open(path, "w") as f:
        f.write(re.sub(r"token: .*", "token: " + token, text))
    expect(p, "down without all rights", ["down", "--kubeconfig", path, "--fleet", "half"], 3,
           r"may not delete csinodes.storage.k8s.io, delete leases.coordination.k8s.io in namespace kube-node-lease: nothing was removed")
    check("and nothing is half-removed", p.request("GET", "/api/v1/nodes/half-0")[0] == 200
          and p.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/half-1")[0] == 200)
    expect(p, "down with all rights", ["down", "--kubeconfig", p.kubeconfig, "--fleet", "half"], 0, r"removed 2 nodes")
    expect(p, "down of a fleet that is not there", ["down", "--kubeconfig", p.kubeconfig, "--fleet", "half"], 1, r"no node of a fleet named half is on https://.*fleets there: .*t")
    expect(p, "an agent on a node of a running fleet", ["agent", "--kubeconfig", p.kubeconfig, "--node-name", "t-0", "--for", "1s"], 1,
           r"node t-0 belongs to fleet t, which runs: its lease was renewed \d+ s ago; stop that fleet, choose another --node-name")
    expect(p, "an address of another machine", ["fleet", "--kubeconfig", p.kubeconfig, "--nodes", "1", "--name", "far", "--kubelet-server", "ports", "--kubelet-address", "8.8.8.8", "--for", "1s"],
           2, r"--kubelet-address 8.8.8.8: an address of this machine is expected")


def unapproved(p):
    """Certificates that nobody approves are told, with the way out."""
    p.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "asker"}})
    p.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "asker"}, "rules": [
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create", "get", "list", "watch"]}]})
    p.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "asker"}, "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "asker"}, "subjects": [{"kind": "ServiceAccount", "name": "asker", "namespace": "default"}]})
    token = p.request("POST", "/api/v1/namespaces/default/serviceaccounts/asker/token", {"spec": {"expirationSeconds": 3600}})[1]["status"]["token"]
    text = re.sub(r"\n    client-certificate-data:.*\n    client-key-data:.*", "", open(p.kubeconfig).read())
    path = os.path.join(p.home, "asker")
    with open(path, "w") as f:
        f.write(re.sub(r"token: .*", "token: " + token, text))
    code, text = run(p, "fleet", "--kubeconfig", path, "--nodes", "3", "--name", "asks", "--identity", "per-node", "--for", "20s")
    check("certificates that nobody approves", code == 0 and re.search(
        r"3 of the nodes wait for client certificates, which nobody approves.*--field-selector spec.signerName=kubernetes.io/kube-apiserver-client-kubelet", text), text[-800:])


def foreign_node(p):
    p.request("POST", "/api/v1/nodes", {"metadata": {"name": "mine-0", "labels": {"keep": "me"}}})
    code, text = run(p, "fleet", "--kubeconfig", p.kubeconfig, "--nodes", "2", "--name", "mine", "--for", "6s")
    node = p.request("GET", "/api/v1/nodes/mine-0")[1]
    check("a node that is not ours is left alone", "ghostfleet.dev/fleet" not in node["metadata"]["labels"] and node["metadata"]["labels"]["keep"] == "me", str(node["metadata"]))
    check("and named", "mine-0" in text and "not ours" in text, text[:500])


def raw(p, data, read_seconds=5):
    """Sends bytes over TLS as HTTP/1.1; what comes back."""
    host, port = p.server.split("//")[1].split(":")
    with socket.create_connection((host, int(port)), timeout=read_seconds) as s:
        with p.context.wrap_socket(s, server_hostname=host) as t:
            try:
                t.sendall(data)
                out = b""
                while chunk := t.recv(65536):
                    out += chunk
                    if b"\r\n\r\n" in out and len(out) > 400:
                        break
                return out
            except (OSError, ssl.SSLError):
                return b""


def requests(p):
    auth = f"Host: x\r\nAuthorization: Bearer {p.token}\r\n"
    create = "/api/v1/namespaces/default/configmaps"
    code, answer = p.request("POST", create, {"metadata": {"name": "big"}, "data": {"a": "x" * (3 * 1024 * 1024)}})
    check("body over 3 MiB", code == 413, str(code))
    check("header over 64 KiB", raw(p, f"GET /api HTTP/1.1\r\n{auth}X-Big: {'y' * 70000}\r\n\r\n".encode()).startswith(b"HTTP/1.1 431"))
    deep = b'{"metadata":{"name":"deep"},"data":' + b'{"a":' * 10000 + b"1" + b"}" * 10000 + b"}"
    code, answer = p.request("POST", create, deep)
    check("JSON nested 10,000 deep", code == 400, str(code))
    code, answer = p.request("POST", create, bytes.fromhex("6b3873000a0f0a02763112094e616d65"), "application/vnd.kubernetes.protobuf")
    check("truncated protobuf", code == 400, f"{code} {answer}")
    check("no HTTP at all", raw(p, b"\x00\x01\x02 nonsense\r\n\r\n").startswith(b"HTTP/1.1 400"))
    code, answer = p.request("GET", "/api/v1/nodes", token="")
    check("anonymous reads nothing", code in (401, 403), str(code))
    code, answer = p.request("POST", create, {"metadata": {"name": "anonymous"}}, token="")
    check("anonymous writes nothing", code in (401, 403), str(code))
    code, answer = p.request("GET", "/api/v1/nodes", token="nonsense")
    check("wrong token", code == 401 and answer.get("kind") == "Status", str(answer))
    code, _ = p.request("GET", "/api/v1/namespaces/default/configmaps/deep")
    check("nothing half-made", code == 404, str(code))


def slow_loris(p):
    """Two hundred connections that never finish their headers: the server answers others and cuts them."""
    host, port = p.server.split("//")[1].split(":")
    slow = []
    for _ in range(200):
        s = socket.create_connection((host, int(port)), timeout=5)
        t = p.context.wrap_socket(s, server_hostname=host)
        t.sendall(b"GET /api HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        slow.append(t)
    begin = time.monotonic()
    code, _ = p.request("GET", "/readyz", raw=True)
    check("others are served meanwhile", code == 200 and time.monotonic() - begin < 2)
    slow[0].settimeout(20)
    try:
        ended = slow[0].recv(1024)
        ended = ended == b"" or ended.startswith(b"HTTP/1.1 408")
    except (ConnectionError, ssl.SSLError):
        ended = True
    except TimeoutError:
        ended = False
    check("and the slow ones are cut", ended)
    for t in slow:
        t.close()


def main():
    with Plane(sys.argv[1], nodes=3) as p:
        for part in (flags, command_line, files, networks, images, credentials, two_fleets, rights, unapproved, foreign_node, requests, slow_loris):
            part(p)
        check("the server still answers", p.request("GET", "/api/v1/nodes")[0] == 200)
        check("a clean end", p.stop() == 0)
    print(json.dumps({"failed": FAILED}))
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
