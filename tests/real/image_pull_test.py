#!/usr/bin/env python3
"""`ghostfleet image` against a real registry on loopback: all pullers, all compressions, TLS with a password, lazy reading by eStargz and SOCI,
a pull that is killed and gone on with, removal; then `ghostfleet agent --image-store` on the embedded control plane, which pulls the images of its pods.

usage: image_pull_test.py GHOSTFLEET
"""
import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import SKIPPED, ready_nodes, wait_for
from embedded import EmbeddedCluster
from registry import INDEX, MANIFEST, Registry, make_chunked, make_layer, make_soci_layer, make_stargz, package_program, push_soci, push_soci_v1

FAILED = []


def check(what, condition, detail=""):
    print(f"{'ok  ' if condition else 'FAIL'} {what} {detail if not condition else ''}", flush=True)
    if not condition:
        FAILED.append(what)


def text(size, seed):
    """Compresses to about a half."""
    rnd = random.Random(seed)
    block = rnd.randbytes(size // 2 + 1).hex().encode()
    return block[:size]


class Tool:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.env = {**os.environ, "GHOSTFLEET_HOME": os.path.join(folder, "home"), "DOCKER_CONFIG": os.path.join(folder, "nodocker")}
        self.stores = 0

    def new_store(self):
        self.stores += 1
        return os.path.join(self.folder, f"store{self.stores}")

    def run(self, *words, timeout=120):
        return subprocess.run([self.program, "image", *words], capture_output=True, timeout=timeout, env=self.env, stdin=subprocess.DEVNULL)

    def pull(self, name, store, *flags):
        done = self.run("pull", name, "--image-store", store, "-o", "json", *flags)
        check(f"pull {name.split('/', 1)[1]} {' '.join(flags[:2])}", done.returncode == 0, done.stderr.decode())
        return json.loads(done.stdout) if done.returncode == 0 else None


def content(root, path):
    try:
        with open(os.path.join(root, path), "rb") as f:
            return f.read()
    except OSError as e:
        return str(e)


def pullers(tool, registry):
    big = text(3 << 20, 1)
    layers = [make_layer({"bin": None, "bin/tool": b"tool", "old/a": b"a", "old/b": b"b", "gone": b"x", "big": big}),
              make_layer({".wh.gone": b"", "old/.wh..wh..opq": b"", "old/c": b"c", "link": ("link", "/bin/tool")}, "none")]
    if shutil.which("zstd"):
        layers.append(make_layer({"z/big": big, "bin/tool": b"newer"}, "zstd"))
    one = registry.push("team/app", "v1", layers)
    registry.push_manifest("team/app", "index", {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**one, "platform": {"os": "linux", "architecture": "amd64"}}]})
    name = registry.host + "/team/app:"
    for flags in (["--puller", "default"], ["--puller", "parallel", "--concurrent-download-chunk-size", "256kb"], ["--puller", "parallel", "--discard-unpacked-layers"]):
        store = tool.new_store()
        report = tool.pull(name + "index", store, "--plain-http", "--platform", "linux/amd64", *flags)
        if report is None:
            continue
        root = report["rootfs"]
        check("files", content(root, "big") == big and content(root, "bin/tool") == (b"newer" if len(layers) > 2 else b"tool"))
        check("whiteouts", not os.path.exists(root + "/gone") and os.listdir(root + "/old") == ["c"], os.listdir(root + "/old"))
        check("an absolute link is kept as it is", os.readlink(root + "/link") == "/bin/tool")
        again = tool.pull(name + "index", store, "--plain-http", "--platform", "linux/amd64")
        check("the second time nothing is fetched", again is not None and all(x["state"] == "present" for x in again["layers"]) and again["bytes"] < 10000, again)
        cat = tool.run("cat", name + "index", "link", "--image-store", store)
        check("cat follows links inside", cat.stdout == content(root, "bin/tool"), cat.stderr)
    listed = json.loads(tool.run("ls", "--image-store", store, "-o", "json").stdout)
    check("ls", [x["image"] for x in listed["items"]] == [name + "index"], listed)
    check("rm", tool.run("rm", name + "index", "--image-store", store).returncode == 0)
    left = [os.path.join(d, f) for d, _, files in os.walk(store) for f in files]
    check("rm leaves nothing", left == [os.path.join(store, "lock")], left)
    arm = tool.run("pull", name + "index", "--image-store", store, "--plain-http", "--platform", "linux/arm64")
    check("another platform", arm.returncode == 1 and b"not there for linux/arm64; there are: linux/amd64" in arm.stderr, arm.stderr)
    none = tool.run("pull", name + "none", "--image-store", store, "--plain-http")
    check("no such tag", none.returncode == 1 and b"manifest unknown" in none.stderr, none.stderr)


def lazy(tool, registry):
    files = {f"data/{i}": text(2 << 20, 100 + i) for i in range(12)}
    files.update({"etc/small": b"small", "etc/link": ("link", "../data/7"), "etc/same": ("hard", "data/3")})
    layer, ztoc = make_soci_layer(files, span=1 << 20)
    push_soci(registry, "team/soci", "v1", [(layer, ztoc)])
    push_soci_v1(registry, "team/soci1", "v1", [(layer, ztoc)])
    registry.push("team/stargz", "v1", [make_stargz(files, 512 << 10)])
    kinds = ["soci", "soci1", "stargz"]
    if shutil.which("zstd"):
        registry.push("team/chunked", "v1", [make_chunked(files)])
        kinds.append("chunked")
    for kind in kinds:
        name, store = f"{registry.host}/team/{kind}:v1", tool.new_store()
        report = tool.pull(name, store, "--puller", "lazy", "--plain-http")
        check(f"{kind}: a lazy pull fetches the tables only", report is not None and report["bytes"] < len(layer["blob"]) / 4, report)
        for path, wanted in (("data/7", files["data/7"]), ("/etc/link", files["data/7"]), ("etc/same", files["data/3"]), ("etc/small", b"small")):
            cat = tool.run("cat", name, path, "--image-store", store)
            check(f"{kind}: cat {path}", cat.stdout == wanted, cat.stderr or len(cat.stdout))
        kept = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(store + "/spans") for f in fs)
        check(f"{kind}: only what was read is kept", 0 < kept < len(layer["blob"]), kept)
        missing = tool.run("cat", name, "etc/none", "--image-store", store)
        check(f"{kind}: no such file", missing.returncode == 1 and b"no such file in the image" in missing.stderr, missing.stderr)
        whole = tool.pull(name, store, "--puller", "parallel", "--plain-http")
        check(f"{kind}: the whole of it", whole is not None and content(whole["rootfs"], "data/11") == files["data/11"])


def killed(tool, registry):
    data = random.Random(7).randbytes(48 << 20)
    registry.push("team/large", "v1", [make_layer({"data": data}, "none")])
    name, store = registry.host + "/team/large:v1", tool.new_store()
    flags = ["--image-store", store, "--plain-http", "--concurrent-download-chunk-size", "1mb", "--max-concurrent-downloads-per-image", "1"]
    child = subprocess.Popen([tool.program, "image", "pull", name, *flags], env=tool.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ingest = store + "/ingest"
    end = time.monotonic() + 30
    marks = b""
    while child.poll() is None and time.monotonic() < end:
        try:
            marks = b"".join(open(os.path.join(ingest, f), "rb").read()[64:] for f in os.listdir(ingest) if f.endswith(".done"))
        except OSError:
            pass
        if marks.count(b"1") >= 5:
            child.send_signal(signal.SIGKILL)
            break
    child.wait(30)
    cut = child.returncode == -signal.SIGKILL and os.listdir(ingest)
    check("a killed pull leaves no image", not cut or not os.listdir(store + "/images"))
    report = tool.pull(name, store, *flags[2:])
    check("and is gone on with", report is not None and content(report["rootfs"], "data") == data)
    check("from where it was", not cut or report["layers"][0]["resumedBytes"] >= 4 << 20, report)


def secured(tool):
    with Registry(tls=True, user="me", password="hunter2") as registry:
        registry.push("team/app", "v1", [make_layer({"f": b"secured"})])
        name, store = registry.host + "/team/app:v1", tool.new_store()
        config = os.path.join(tool.folder, "config.json")
        with open(config, "w") as f:
            json.dump({"auths": {registry.host: {"auth": base64.b64encode(b"me:hunter2").decode()}}}, f)
        report = tool.pull(name, store, "--ca-file", registry.ca, "--docker-config", config)
        check("TLS and a password", report is not None and content(report["rootfs"], "f") == b"secured" and report["logins"] == 1, report)
        nobody = tool.run("pull", name, "--image-store", store, "--ca-file", registry.ca)
        check("no password", nobody.returncode == 3 and b"401" in nobody.stderr, nobody.stderr)
        with open(config, "w") as f:
            json.dump({"auths": {registry.host: {"username": "me", "password": "hunter3"}}}, f)
        wrong = tool.run("pull", name, "--image-store", store, "--ca-file", registry.ca, "--docker-config", config)
        check("a wrong password, not told", wrong.returncode == 3 and b"401" in wrong.stderr and b"hunter" not in wrong.stderr, wrong.stderr)
        unknown = tool.run("pull", name, "--image-store", store, "--docker-config", config)
        check("an unknown authority", unknown.returncode == 1 and b"certificate" in unknown.stderr, unknown.stderr)
        plain = tool.run("pull", name, "--image-store", store, "--plain-http")
        check("HTTP to an HTTPS port", plain.returncode != 0, plain.stderr)


NODE = "n1"
PODS = "/api/v1/namespaces/default/pods"


class Agent:
    """A node whose images are really pulled, and what the API says of its pods."""

    def __init__(self, cluster, ghostfleet, plain, secured, folder):
        self.c = cluster
        self.command = [ghostfleet, "agent", "--kubeconfig", cluster.kubeconfig, "--node-name", NODE, "--profile", "m7i.xlarge", "--image-store", os.path.join(folder, "agent-store"),
                        "--image-insecure-registry", plain.host, "--image-ca-file", secured.ca, "--image-platform", "linux/amd64"]
        self.env = {"GHOSTFLEET_HOME": cluster.path("home"), "DOCKER_CONFIG": os.path.join(folder, "nodocker")}
        self.process = cluster.add("agent", self.command, env=self.env)
        self.ready()

    def ready(self):
        wait_for("node Ready", lambda: ready_nodes(self.c.items("/api/v1/nodes")) == 1, 60)

    def create(self, name, image, policy="IfNotPresent", **spec):
        container = {"name": "c", "image": image, "imagePullPolicy": policy}
        self.c.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": NODE, "terminationGracePeriodSeconds": 0, "containers": [container], **spec}})

    def container(self, name):
        return ((self.c.get(f"{PODS}/{name}")["status"].get("containerStatuses")) or [{}])[0]

    def runs(self, name):
        def now():
            pod = self.c.get(f"{PODS}/{name}")
            return pod["status"]["containerStatuses"][0] if pod["status"].get("phase") == "Running" else None
        try:
            return wait_for(f"pod {name} Running", now, 90)
        except AssertionError:
            print(self.container(name), self.process.tail(), flush=True)
            raise

    def waits(self, name, reason):
        def now():
            waiting = self.container(name).get("state", {}).get("waiting", {})
            return waiting.get("message", "-") if waiting.get("reason") == reason else None
        return wait_for(f"pod {name} {reason}", now, 90)

    def told(self, name, reason):
        return [e["message"] for e in self.c.items("/api/v1/namespaces/default/events") if e["involvedObject"]["name"] == name and e["reason"] == reason]

    def is_told(self, name, reason, part):
        wait_for(f"event {reason} of {name}: {part}", lambda: any(part in m for m in self.told(name, reason)), 60)

    def shows(self, name, size):
        """The Node tells an image by its digest, its tag and its size."""
        def now():
            images = self.c.get(f"/api/v1/nodes/{NODE}")["status"].get("images", [])
            return any(name in i["names"] and i["sizeBytes"] == size and "@sha256:" in i["names"][0] for i in images)
        wait_for(f"the Node's images hold {name}", now, 120)


def pulled_size(registry, repository, manifest):
    body = registry.request("GET", f"/v2/{repository}/manifests/{manifest}", headers={"Accept": MANIFEST})[2]
    document = json.loads(body)
    return len(body) + document["config"]["size"] + sum(x["size"] for x in document["layers"])


def outcomes(agent, plain):
    one = plain.push("agent/app", "v1", [make_layer({"f": text(1 << 20, 11)})])
    index = plain.push_manifest("agent/app", "index", {"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**one, "platform": {"os": "linux", "architecture": "amd64"}}]})
    name = plain.host + "/agent/app:"
    agent.create("app", name + "index")
    check("imageID is the digest that the registry answered with", agent.runs("app")["imageID"] == f"{plain.host}/agent/app@{index['digest']}", agent.container("app"))
    size = pulled_size(plain, "agent/app", one["digest"])
    agent.is_told("app", "Pulling", f'Pulling image "{name}index"')
    agent.is_told("app", "Pulled", f"including waiting). Image size: {size} bytes.")
    agent.shows(name + "index", size)
    agent.create("missing", name + "none")
    check("ErrImagePull in the registry's words", "manifest unknown" in agent.waits("missing", "ErrImagePull"))
    agent.is_told("missing", "Failed", f'rpc error: code = NotFound desc = failed to pull and unpack image "{name}none"')
    check("then it backs off", "ErrImagePull: rpc error" in agent.waits("missing", "ImagePullBackOff"))
    agent.create("never", name + "none", "Never")
    agent.waits("never", "ErrImageNeverPull")
    agent.is_told("never", "ErrImageNeverPull", f'Container image "{name}none" is not present with pull policy of Never')
    agent.create("there", name + "index", "Never")
    agent.runs("there")
    agent.is_told("there", "Pulled", "already present on machine")
    # The tag moves: who asks always gets the new one, and what runs is what it was.
    other = plain.push("agent/app", "index", [make_layer({"f": b"newer"})])
    agent.create("always", name + "index", "Always")
    check("Always asks the registry", agent.runs("always")["imageID"] == f"{plain.host}/agent/app@{other['digest']}", agent.container("always"))
    check("a running container keeps its image", agent.container("app")["imageID"] == f"{plain.host}/agent/app@{index['digest']}", agent.container("app"))
    # What was missing comes.
    plain.push("agent/app", "none", [make_layer({"f": b"late"})])
    agent.runs("missing")
    return index


def secrets(agent, secured):
    secured.push("agent/secret", "v1", [make_layer({"f": b"secret"})])
    name = secured.host + "/agent/secret:v1"
    agent.create("nobody", name)
    check("without a pull secret", "401" in agent.waits("nobody", "ErrImagePull"))
    config = json.dumps({"auths": {secured.host: {"auth": base64.b64encode(b"me:hunter2").decode()}}})
    agent.c.post("/api/v1/namespaces/default/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "type": "kubernetes.io/dockerconfigjson",
                                                        "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()}})
    secret = {"imagePullSecrets": [{"name": "pull"}]}
    agent.create("me", name, **secret)
    agent.runs("me")
    agent.create("me-never", name, "Never", **secret)
    agent.runs("me-never")
    agent.create("other-never", name, "Never")
    agent.waits("other-never", "ErrImageNeverPull")
    agent.is_told("other-never", "ErrImageNeverPull", f'Container image "{name}" is not present with pull policy of Never')
    agent.create("other", name)
    check("what another pod has pulled is not for one without its secret", "401" in agent.waits("other", "ErrImagePull"))
    with open(agent.process.log) as f:
        check("no password in the log", "hunter2" not in f.read())


def restarted(agent, plain, index):
    check("the agent ends cleanly", agent.process.stop() == 0, agent.process.tail())
    plain.process.stop()
    agent.process.start()
    agent.ready()
    agent.create("again", f"{plain.host}/agent/app@{index['digest']}")
    check("after a restart the image is there, without its registry", agent.runs("again")["imageID"] == f"{plain.host}/agent/app@{index['digest']}")
    agent.is_told("again", "Pulled", "already present on machine")
    check("what ran runs on", agent.runs("app")["restartCount"] == 0 and agent.container("app")["imageID"].endswith(index["digest"]), agent.container("app"))
    agent.create("gone", plain.host + "/agent/other:v1")
    check("a registry that is gone", "rpc error" in agent.waits("gone", "ErrImagePull"))


def refused_flags(agent):
    def refused(what, words, part):
        done = subprocess.run([*agent.command[:8], *words], capture_output=True, timeout=60, env={**os.environ, **agent.env}, stdin=subprocess.DEVNULL)
        check(what, done.returncode == 2 and part in done.stderr.decode(), done.stderr)
    store = agent.command[agent.command.index("--image-store") + 1]
    refused("a store and a model", ["--image-store", store, "--images", "built-in"], "--image-store and --images: give one of them")
    refused("a store and rules", ["--image-store", store, "--image-rules", "x"], "--image-store and --image-rules: give one of them")
    refused("a file for a store", ["--image-store", store + "/lock"], "--image-store: image store")
    refused("a flag without a store", ["--image-insecure-registry", "r:5000"], "--image-insecure-registry: --image-store is needed with it")
    refused("a registry that is none", ["--image-store", store, "--image-insecure-registry", "http://r:5000"], 'a registry as in the names of images is expected')
    refused("serial and parallel", ["--image-store", store, "--serialize-image-pulls", "--max-parallel-image-pulls", "3"], "give one of them")
    refused("thresholds the wrong way round", ["--image-store", store, "--image-gc-low-threshold", "85"], "--image-gc-low-threshold 85: less than --image-gc-high-threshold (85) is expected")
    refused("a policy that is none", ["--image-store", store, "--image-pull-credentials-verification-policy", "Never"], "NeverVerifyPreloadedImages")
    refused("a list without its policy", ["--image-store", store, "--preloaded-images-verification-allowlist", "r.example/*"], "NeverVerifyAllowlistedImages is needed with it")
    refused("a list that is none", ["--image-store", store, "--image-pull-credentials-verification-policy", "NeverVerifyAllowlistedImages", "--preloaded-images-verification-allowlist", "r.example/a:1"], "without tag and digest")
    refused("background without lazy", ["--image-store", store, "--no-image-background-fetch"], "--image-puller lazy is needed with it")
    refused("authorities that are none", ["--image-store", store, "--image-ca-file", store + "/lock"], "it holds no certificate in PEM")


def agent_with_store(ghostfleet, folder):
    with Registry() as plain, Registry(tls=True, user="me", password="hunter2") as secured, EmbeddedCluster(ghostfleet) as cluster:
        agent = Agent(cluster, ghostfleet, plain, secured, folder)
        index = outcomes(agent, plain)
        secrets(agent, secured)
        restarted(agent, plain, index)
        refused_flags(agent)


def main():
    if package_program("docker-registry") is None:
        print("skipped: no docker-registry (scripts/setup --real)")
        sys.exit(SKIPPED)
    folder = tempfile.mkdtemp(prefix="gf-image-")
    tool = Tool(os.path.abspath(sys.argv[1]), folder)
    try:
        with Registry() as registry:
            pullers(tool, registry)
            lazy(tool, registry)
            killed(tool, registry)
        secured(tool)
        gone = tool.run("pull", registry.host + "/team/app:v1", "--image-store", tool.new_store(), "--plain-http")
        check("nobody listens", gone.returncode == 3 and b"given up after" in gone.stderr, gone.stderr)
        agent_with_store(tool.program, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("FAILED: " + ", ".join(FAILED) if FAILED else "all good")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
