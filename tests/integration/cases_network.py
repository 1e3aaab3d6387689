"""Addresses of pods on a cloud network, through the whole of it: a fleet with a VPC file, scheduler and controllers."""
import os

from case_support import EVENTS, NODES, PATHS, PODS, case

PROFILE = """apiVersion: ghostfleet.dev/v1alpha1
kind: NodeProfile
metadata: {name: t2.medium}
spec:
  cpu: 2
  memoryMiB: 4096
  maxPods: MAX
  network: {cards: 1, interfacesPerCard: 3, ipv4PerInterface: 6}
  labels: {karpenter.k8s.aws/instance-hypervisor: xen}
"""
VPC = """apiVersion: ghostfleet.dev/v1alpha1
kind: VPC
metadata: {name: small}
spec:
  cidrs: [172.31.0.0/16]
  subnets:
  - {name: a, zone: us-west-2a, cidr: 172.31.0.0/20}
  latency: {attach: 1s}
  ipam: {IPAM}
"""
NO_ADDRESS = 'plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container'


def write(t, name, text):
    path = os.path.join(t.p.home, name)
    with open(path, "w") as f:
        f.write(text)
    return path


def words(t, max_pods, name, ipam=""):
    profile = write(t, f"t2-{max_pods}.yaml", PROFILE.replace("MAX", str(max_pods)))
    vpc = write(t, f"vpc-{name}.yaml", VPC.replace("IPAM", ipam))
    return ("fleet", "--nodes", "1", "--zones", "us-west-2a", "--profile", profile, "--vpc", vpc, "--name", name)


def deploy(t, name, replicas, node, host=False):
    spec = {"containers": [{"name": "c", "image": "registry.example.test/web:1", "resources": {"requests": {"cpu": "1m"}}}], "nodeSelector": {"kubernetes.io/hostname": node}}
    if host:
        spec["hostNetwork"] = True
    labels = {"app": name}
    t.post(PATHS["Deployment"], {"metadata": {"name": name}, "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}})


def addresses(t, app):
    """Of the pods that run; each once."""
    got = [p["status"]["podIP"] for p in t.items(f"{PODS}?labelSelector=app%3D{app}") if p["status"]["phase"] == "Running"]
    assert len(set(got)) == len(got), got
    return got


@case("C053")
def c053(t):
    """max-pods of 110 on a node with 15 addresses: the rest waits, and takes what others leave."""
    t.start(*words(t, 110, "t2"))
    t.wait("node Ready", lambda: t.p.ready_nodes() == 1, 40)
    deploy(t, "hosty", 2, "t2-0", host=True)
    t.wait("pods on the host's network run", lambda: t.count("app%3Dhosty") == 2, 40)
    deploy(t, "many", 28, "t2-0")
    t.wait("15 of 28 run", lambda: t.count("app%3Dmany") == 15, 60)
    host = t.get(f"{NODES}/t2-0")["status"]["addresses"][0]["address"]
    assert all(p["status"]["podIP"] == host for p in t.items(f"{PODS}?labelSelector=app%3Dhosty"))
    waiting = [p for p in t.items(f"{PODS}?labelSelector=app%3Dmany") if p["status"]["phase"] == "Pending"]
    assert len(waiting) == 13 and not any(p["status"].get("podIP") for p in waiting), [p["status"] for p in waiting]
    assert all(p["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating" for p in waiting)
    name = waiting[0]["metadata"]["name"]
    t.wait("its event", lambda: t.events(name, "FailedCreatePodSandBox"), 30)
    message = t.events(name, "FailedCreatePodSandBox")[0]["message"]
    assert NO_ADDRESS in message and message.startswith("Failed to create pod sandbox: rpc error: "), message
    assert t.p.ready_nodes() == 1
    before = set(addresses(t, "many"))
    t.delete(next(p["metadata"]["name"] for p in t.items(f"{PODS}?labelSelector=app%3Dmany") if p["status"]["phase"] == "Running"))
    t.wait("14 run", lambda: t.count("app%3Dmany") == 14, 40)
    # The stop, 30 s of cooling, and a try that comes within 16 s.
    t.wait("the freed address is used again", lambda: t.count("app%3Dmany") == 15, 60)
    assert set(addresses(t, "many")) == before
    assert t.p.ready_nodes() == 1 and t.count("app%3Dhosty") == 2
    t.end()
    t.wait("the fleet is gone", lambda: t.children[0].poll() is not None, 20)
    with open(t.children[0].log) as log:
        assert "t2.medium allows 110 pods, but its interfaces hold 15 addresses" in log.read()
    bounded(t)
    refused = t.start(*words(t, 17, "pfx", "enablePrefixDelegation: true"))
    assert refused.wait(20) == 2, refused.returncode
    with open(refused.log) as log:
        text = log.read()
    assert "t2.medium is not a Nitro instance type and takes no prefixes" in text, text


def bounded(t):
    """With the formula's 17 pods nothing hangs: the scheduler keeps the rest."""
    t.start(*words(t, 17, "bounded"))
    t.wait("node Ready", lambda: t.node_is("bounded-0", "True"), 40)
    deploy(t, "hosty2", 2, "bounded-0", host=True)
    t.wait("pods on the host's network run", lambda: t.count("app%3Dhosty2") == 2, 40)
    deploy(t, "few", 28, "bounded-0")
    t.wait("15 run", lambda: t.count("app%3Dfew") == 15, 60)
    rest = [p for p in t.items(f"{PODS}?labelSelector=app%3Dfew") if p["status"]["phase"] == "Pending"]
    assert len(rest) == 13 and not any(p["spec"].get("nodeName") for p in rest)
    t.wait("the scheduler says why", lambda: any("Too many pods" in e["message"] for e in t.items(EVENTS) if e["reason"] == "FailedScheduling"), 30)
