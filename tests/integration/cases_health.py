"""G3 and G4: what schedulers, autoscalers and chaos tests see of nodes: resources, taints, evictions, lost nodes and zones."""
import os
import signal
import subprocess
import time

from case_support import GRACE, JOBS, NODES, PATHS, PODS, SHORT_GRACE, case, condition, documents, has_taint, kind_of

UNREACHABLE = "node.kubernetes.io/unreachable"
STATEFUL, DEPLOYMENTS = PATHS["StatefulSet"], PATHS["Deployment"]


def pods_of(t, app):
    return t.items(f"{PODS}?labelSelector=app%3D{app}")


def told(t, name, text):
    return any(text in e.get("message", "") for e in t.events(name, "FailedScheduling"))


def set_taints(t, node, taints):
    t.patch(f"{NODES}/{node}", {"spec": {"taints": taints}})


# ---- G3


@case("C025")
def c025(t):
    """Allocatable below capacity, to the byte, and the scheduler keeps to it."""
    path = os.path.join(t.p.home, "reserved.yaml")
    text = ("apiVersion: ghostfleet.dev/v1alpha1\nkind: Fleet\nmetadata: {name: r}\nspec:\n  groups:\n"
            "  - {name: g, count: 1, nameTemplate: n-r, profile: m5.large, maxPods: 29, capacity: {cpu: \"2\", memory: 4Gi}, allocatable: {cpu: 1900m, memory: 3522Mi}}\n")
    with open(path, "w") as f:
        f.write(text)
    t.start("fleet", "-f", path)
    t.wait("node Ready", lambda: t.node_is("n-r", "True"), 40)
    status = t.get(f"{NODES}/n-r")["status"]
    assert {k: status["capacity"][k] for k in ("cpu", "memory", "pods")} == {"cpu": "2", "memory": "4Gi", "pods": "29"}, status["capacity"]
    assert {k: status["allocatable"][k] for k in ("cpu", "memory", "pods")} == {"cpu": "1900m", "memory": "3522Mi", "pods": "29"}, status["allocatable"]
    t.create("C025.yaml")
    t.wait("29 of 30 pods run", lambda: sum(p["status"]["phase"] == "Running" for p in pods_of(t, "small")) == 29, 40)
    left = [p["metadata"]["name"] for p in pods_of(t, "small") if p["status"]["phase"] == "Pending"]
    assert len(left) == 1, left
    t.wait("the thirtieth is told why", lambda: told(t, left[0], "Too many pods"), 20)
    t.wait("toobig is told why", lambda: told(t, "toobig", "Insufficient cpu"), 20)
    with open(path, "w") as f:
        f.write(text.replace("cpu: 1900m", "cpu: 3"))
    done = subprocess.run([t.p.ghostfleet, "fleet", "--kubeconfig", t.p.kubeconfig, "-f", path, "--name", "more", "--for", "1s"], capture_output=True, text=True, env=t.p.env, timeout=60)
    assert done.returncode == 2 and "allocatable" in done.stderr, (done.returncode, done.stdout, done.stderr)


@case("C027")
def c027(t):
    """A registration taint that somebody removes does not come back; a provider id stays."""
    t.create("C027.yaml")
    agent = t.agent("k-1", capacity="cpu=4,memory=16Gi,pods=110")
    t.wait("node Ready", lambda: t.node_is("k-1", "True"), 40)
    t.wait("p is told of the taint", lambda: told(t, "p", "karpenter.sh/unregistered"), 20)
    assert not t.pod("p")["spec"].get("nodeName") and has_taint(t.get(f"{NODES}/k-1"), "karpenter.sh/unregistered", "NoExecute")
    set_taints(t, "k-1", [])
    t.wait("p Ready", lambda: t.running("p"), 20)
    disrupted = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    set_taints(t, "k-1", disrupted)
    agent.kill()
    agent.wait()
    lease = lambda: t.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/k-1")["spec"]["renewTime"]
    before = lease()
    t.agent("k-1", capacity="cpu=4,memory=16Gi,pods=110")
    for _ in range(2):  # a heartbeat of the new agent and another
        t.wait("a heartbeat", lambda: lease() != before, 30)
        before = lease()
    node = t.get(f"{NODES}/k-1")
    assert node["spec"]["taints"] == disrupted and node["spec"]["providerID"] == "kwok://k-1", node["spec"]
    code, answer = t.p.request("PATCH", f"{NODES}/k-1", {"spec": {"providerID": "kwok://other"}}, "application/merge-patch+json")
    assert code == 422 and answer["reason"] == "Invalid", (code, answer)


def start_sensitive(t, name, cpu="10m"):
    """A Job of C028, and its first pod once it runs."""
    text = next(d for d in documents("C028.yaml") if kind_of(d) == "Job").replace("name: sensitive", f"name: {name}").replace("long:1}", f"long:1, resources: {{requests: {{cpu: {cpu}}}}}}}")
    t.post(JOBS, text.encode(), "application/yaml")
    mine = lambda: t.items(f"{PODS}?labelSelector=job-name%3D{name}")
    t.wait(f"the pod of {name} Ready", lambda: any(condition(p, "Ready")[0] == "True" for p in mine()), 30)
    return mine()[0]


def look_back(watch, uid):
    """The reason of a pod's DisruptionTarget (None: it had none), whether it was there when the deletion began, and the last phase."""
    seen = watch.of(uid)
    target = lambda p: next((c["reason"] for c in p["status"].get("conditions", []) if c["type"] == "DisruptionTarget"), None)
    leaving = [p for _, p in seen if p["metadata"].get("deletionTimestamp")]
    return target(seen[-1][1]), target(leaving[0]) if leaving else None, seen[-1][1]["status"]["phase"]


@case("C028")
def c028(t):
    """How a pod was removed is in its condition, and a Job that ignores disruptions counts only a plain deletion."""
    for text in documents("C028.yaml"):
        if kind_of(text) == "Node":
            for name in ("n-a1", "n-a2"):
                t.post(NODES, text.replace("n-a1", name).encode(), "application/yaml")
                t.agent(name)
    watch = t.watch(PODS)
    pods = {name: start_sensitive(t, name) for name in ("evicted", "plain", "tainted", "lost")}
    gone = lambda name: any(kind == "DELETED" for kind, _ in watch.of(pods[name]["metadata"]["uid"]))
    seen = lambda name: look_back(watch, pods[name]["metadata"]["uid"])

    code, answer = t.evict(pods["evicted"]["metadata"]["name"])
    assert code == 201, answer
    t.wait("the evicted pod is gone", lambda: gone("evicted"), 40)
    assert seen("evicted") == ("EvictionByEvictionAPI", "EvictionByEvictionAPI", "Failed"), seen("evicted")

    t.delete(pods["plain"]["metadata"]["name"])
    t.wait("the Job of the deleted pod Failed", lambda: condition(t.get(f"{JOBS}/plain"), "Failed")[0] == "True", 40)
    t.wait("one failure is counted", lambda: t.get(f"{JOBS}/plain")["status"].get("failed") == 1, 20)
    t.wait("the deleted pod is gone", lambda: gone("plain"), 40)
    assert seen("plain")[0] is None, seen("plain")

    node = t.pod(pods["tainted"]["metadata"]["name"])["spec"]["nodeName"]
    set_taints(t, node, [{"key": "example.test/out", "effect": "NoExecute"}])
    t.wait("the pod of the tainted node is gone", lambda: gone("tainted"), 40)
    assert seen("tainted") == ("DeletionByTaintManager", "DeletionByTaintManager", "Failed"), seen("tainted")
    set_taints(t, node, [])

    t.post("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    first = start_sensitive(t, "outdone", "7")
    pods["outdone"] = first
    t.post(PODS, {"metadata": {"name": "urgent"}, "spec": {"priorityClassName": "urgent", "nodeSelector": {"kubernetes.io/hostname": first["spec"]["nodeName"]},
                                                           "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "7"}}}]}})
    t.wait("the outdone pod is gone", lambda: gone("outdone"), 40)
    assert seen("outdone") == ("PreemptionByScheduler", "PreemptionByScheduler", "Failed"), seen("outdone")
    t.wait("the urgent pod runs in its place", lambda: t.running("urgent"), 40)
    assert t.pod("urgent")["spec"]["nodeName"] == first["spec"]["nodeName"]

    here = lambda: [p for p in t.items(f"{PODS}?labelSelector=job-name%3Dlost") if condition(p, "Ready")[0] == "True" and not p["metadata"].get("deletionTimestamp")]
    t.wait("the last Job's pod runs, wherever the taint has sent it", here, 30)
    pods["lost"] = here()[0]
    node = pods["lost"]["spec"]["nodeName"]
    agent = t.children[0 if node == "n-a1" else 1]
    agent.terminate()
    agent.wait(20)
    t.p.request("DELETE", f"{NODES}/{node}")
    t.wait("the pod of the deleted node is gone", lambda: gone("lost"), 100)
    assert seen("lost")[0] == "DeletionByPodGC" and seen("lost")[2] == "Failed", seen("lost")
    for name in ("evicted", "tainted", "outdone", "lost"):
        status = t.get(f"{JOBS}/{name}")["status"]
        assert not status.get("failed") and condition({"status": status}, "Failed")[0] is None, (name, status)
        t.wait(f"another pod of {name}", lambda name=name: any(p["metadata"]["uid"] != pods[name]["metadata"]["uid"] for p in t.items(f"{PODS}?labelSelector=job-name%3D{name}")), 30)


# ---- G4: zones


def zone_fleet(t, name, zone, names, count):
    """Nodes of one zone in a process of their own, so that they can fall silent together."""
    return t.start("fleet", "--nodes", str(count), "--profile", "m5.large", "--name", name, "--node-name", names, "--region", "r1", "--zones", zone)


def zones(t, silent_in_a):
    """Four nodes each in za and zb, 40 pods on them; so many of za are in a process that can be stopped."""
    stopped = zone_fleet(t, "down", "za", "a{index}", silent_in_a)
    if silent_in_a < 4:
        zone_fleet(t, "up-a", "za", "up-a{index}", 4 - silent_in_a)
    other = zone_fleet(t, "up-b", "zb", "b{index}", 4)
    t.wait("nodes Ready", lambda: t.p.ready_nodes() == 8, 40)
    t.post(DEPLOYMENTS, next(d for d in documents("C029.yaml") if kind_of(d) == "Deployment").encode(), "application/yaml")
    t.wait("40 pods Ready", lambda: t.count("app%3Dspread") == 40, 60)
    return stopped, other


def unknown(t):
    return [n["metadata"]["name"] for n in t.items(NODES) if condition(n, "Ready")[0] == "Unknown"]


def evicting(t):
    return [n["metadata"]["name"] for n in t.items(NODES) if has_taint(n, UNREACHABLE, "NoExecute")]


def taint_moments(watch):
    """When each node got its NoExecute taint."""
    first = {}
    for at, _, node in list(watch.events):
        if has_taint(node, UNREACHABLE, "NoExecute"):
            first.setdefault(node["metadata"]["name"], at)
    return sorted(first.values())


@case("C029A", *SHORT_GRACE)
def c029a(t):
    """One node of a zone: tainted, and its pods go when their toleration is over."""
    stopped, _ = zones(t, 1)
    watch, pods = t.watch(NODES), t.watch(PODS)
    stopped.send_signal(signal.SIGSTOP)
    t.wait("the taint", lambda: taint_moments(watch), GRACE + 40)
    begin = taint_moments(watch)[0]
    doomed = lambda: [at for at, _, p in list(pods.events) if p["spec"].get("nodeName") == "a0" and p["metadata"].get("deletionTimestamp")]
    t.wait("its pods are deleted", doomed, 60)
    assert 28 <= min(doomed()) - begin <= 45, min(doomed()) - begin
    t.wait("40 pods elsewhere", lambda: sum(condition(p, "Ready")[0] == "True" and p["spec"]["nodeName"] != "a0" for p in pods_of(t, "spread")) == 40, 40)
    assert evicting(t) == ["a0"] and has_taint(t.get(f"{NODES}/a0"), UNREACHABLE, "NoSchedule")


@case("C029B", *SHORT_GRACE)
def c029b(t):
    """Three of four nodes of a small zone: nothing is evicted while it lasts (one node at most, when they were not lost at once)."""
    stopped, _ = zones(t, 3)
    stopped.send_signal(signal.SIGSTOP)
    t.wait("three Unknown", lambda: len(unknown(t)) == 3, GRACE + 40)
    t.wait("NoSchedule on all", lambda: sum(has_taint(n, UNREACHABLE, "NoSchedule") for n in t.items(NODES)) == 3, 20)
    end = time.monotonic() + 25  # at the usual rate two more would have been tainted
    t.wait("the time is over", lambda: time.monotonic() > end or len(evicting(t)) > 1, 60)
    assert len(evicting(t)) <= 1, evicting(t)


@case("C029C", *SHORT_GRACE)
def c029c(t):
    """A whole zone: evicted at the usual rate, a node every ten seconds."""
    stopped, _ = zones(t, 4)
    watch = t.watch(NODES)
    stopped.send_signal(signal.SIGSTOP)
    t.wait("four taints", lambda: len(taint_moments(watch)) == 4, GRACE + 100)
    times = taint_moments(watch)
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert all(9 <= gap <= 20 for gap in gaps), gaps


@case("C029D", *SHORT_GRACE)
def c029d(t):
    """All zones: nothing is evicted, and no burst when they come back."""
    stopped, other = zones(t, 4)
    uids = {p["metadata"]["uid"] for p in pods_of(t, "spread")}
    for fleet in (stopped, other):
        fleet.send_signal(signal.SIGSTOP)
    t.wait("all Unknown", lambda: len(unknown(t)) == 8, GRACE + 40)
    t.wait("no NoExecute taint", lambda: not evicting(t), 30)
    end = time.monotonic() + 15
    t.wait("the time is over", lambda: time.monotonic() > end or evicting(t), 60)
    assert not evicting(t)
    for fleet in (stopped, other):
        fleet.send_signal(signal.SIGCONT)
    t.wait("all Ready", lambda: t.p.ready_nodes() == 8, 30)
    t.wait("no taint", lambda: not any(n["spec"].get("taints") for n in t.items(NODES)), 20)
    t.wait("40 pods Ready", lambda: t.count("app%3Dspread") == 40, 40)
    assert {p["metadata"]["uid"] for p in pods_of(t, "spread")} == uids, "a pod was evicted"


# ---- G4: taints and lost nodes


@case("C031")
def c031(t):
    """A NoExecute taint that goes away in time, while another one stays, takes its eviction along."""
    t.create("C031.yaml")
    t.agent("ded")
    t.wait("pods Ready", lambda: t.running("p") and t.running("q"), 40)
    uid, own = t.pod("p")["metadata"]["uid"], [{"key": "dedicated", "value": "team", "effect": "NoExecute"}]
    flap = [{"key": "example.test/flap", "value": "x", "effect": "NoExecute"}]
    set_taints(t, "ded", own + flap)
    begin = time.monotonic()
    t.wait("q is deleted at once", lambda: t.pod("q") is None or t.pod("q")["metadata"].get("deletionTimestamp"), 10)
    t.wait("five seconds", lambda: time.monotonic() - begin > 5, 20)
    set_taints(t, "ded", own)
    t.wait("thirty more", lambda: time.monotonic() - begin > 35, 60)
    assert t.pod("p")["metadata"]["uid"] == uid and not t.pod("p")["metadata"].get("deletionTimestamp")
    set_taints(t, "ded", own + flap)
    begin = time.monotonic()
    t.wait("p is deleted", lambda: t.pod("p") is None or t.pod("p")["metadata"].get("deletionTimestamp"), 60)
    assert time.monotonic() - begin > 18, f"only {time.monotonic() - begin:.0f} s of the 20 s that p tolerates"


@case("C033", *SHORT_GRACE)
def c033(t):
    """A node that comes back loses both taints in one write: no pod is put there to be evicted at once."""
    agents = {name: t.agent(name) for name in ("n-1", "n-2")}
    t.wait("nodes Ready", lambda: t.p.ready_nodes() == 2, 40)
    t.create("C033.yaml")
    t.wait("four pods Ready", lambda: t.count("app%3Dbounce") == 4, 40)
    t.wait("on both nodes", lambda: {p["spec"]["nodeName"] for p in pods_of(t, "bounce")} == set(agents), 10)
    agents["n-1"].send_signal(signal.SIGSTOP)
    t.wait("four pods on the other", lambda: sum(condition(p, "Ready")[0] == "True" and p["spec"]["nodeName"] == "n-2" for p in pods_of(t, "bounce")) == 4, GRACE + 60)
    watch, nodes, begin = t.watch(PODS), t.watch(NODES), time.monotonic()
    agents["n-1"].send_signal(signal.SIGCONT)
    t.wait("the node is back", lambda: t.node_is("n-1", "True") and not t.get(f"{NODES}/n-1")["spec"].get("taints"), 30)
    t.wait("a while", lambda: time.monotonic() - begin > 20, 40)
    bounced = [p["metadata"]["name"] for _, kind, p in list(watch.events) if kind == "ADDED"]
    assert not bounced, f"pods made while the node came back: {bounced}"
    taints = [[t["effect"] for t in n["spec"].get("taints", [])] for _, _, n in list(nodes.events) if n["metadata"]["name"] == "n-1"]
    assert ["NoExecute"] not in taints and ["NoSchedule"] not in taints, taints


def dead_node(t):
    """C034 until the pods of the dead node are Terminating: the agents by node, and the dead node."""
    for text in documents("C034.yaml"):
        if kind_of(text) == "Node":
            t.post(NODES, text.encode(), "application/yaml")
    agents = {name: t.agent(name) for name in ("n-a1", "n-a2")}
    t.wait("nodes Ready", lambda: t.p.ready_nodes() == 2, 40)
    for text in documents("C034.yaml"):
        if kind_of(text) != "Node":
            t.post(PATHS[kind_of(text)], text.encode(), "application/yaml")
    t.wait("pods Ready", lambda: [t.count(f"app%3D{a}") for a in ("st", "de", "ds")] == [2, 2, 2], 60)
    dead = t.pod("st-0")["spec"]["nodeName"]
    old = t.pod("st-0")["metadata"]["uid"]
    agents[dead].kill()
    agents[dead].wait()
    t.wait("st-0 is Terminating", lambda: t.pod("st-0")["metadata"].get("deletionTimestamp"), GRACE + 60)
    t.wait("the Deployment runs elsewhere", lambda: sum(condition(p, "Ready")[0] == "True" and p["spec"]["nodeName"] != dead for p in pods_of(t, "de")) == 2, 40)
    end = time.monotonic() + 10
    t.wait("a while", lambda: time.monotonic() > end, 20)
    assert t.pod("st-0")["metadata"]["uid"] == old and len(pods_of(t, "st")) == 2 and t.count("app%3Dst") == 1, "a second st-0 while the first may still run"
    assert not any(p["metadata"].get("deletionTimestamp") for p in pods_of(t, "ds")), "a DaemonSet's pod was evicted"
    return agents, dead, old


def st_0_is_new(t, old, dead=None):
    pod = t.pod("st-0")
    return pod is not None and pod["metadata"]["uid"] != old and condition(pod, "Ready")[0] == "True" and pod["spec"]["nodeName"] != dead


@case("C034A", *SHORT_GRACE)
def c034a(t):
    """A dead node that somebody declares out of service: its pods go, the StatefulSet goes on elsewhere."""
    _, dead, old = dead_node(t)
    taints = t.get(f"{NODES}/{dead}")["spec"]["taints"]
    set_taints(t, dead, taints + [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}])
    t.wait("a new st-0 elsewhere", lambda: st_0_is_new(t, old, dead), 60)


@case("C034B", *SHORT_GRACE)
def c034b(t):
    """A dead node that comes back: its agent ends the old pods."""
    _, dead, old = dead_node(t)
    t.agent(dead)
    t.wait("a new st-0", lambda: st_0_is_new(t, old), 60)


@case("C034C", *SHORT_GRACE)
def c034c(t):
    """A dead node that is deleted: the pods are collected."""
    _, dead, old = dead_node(t)
    t.p.request("DELETE", f"{NODES}/{dead}")
    t.wait("a new st-0 elsewhere", lambda: st_0_is_new(t, old, dead), 100)


# ---- G4: budgets and conditions


@case("C035")
def c035(t):
    """Evictions under a budget: one at a time, and pods that are not ready do not block for ever."""
    t.create("C035.yaml")
    for i in range(1, 5):
        t.agent(f"n-a{i}")
    budget = lambda: t.get(PATHS["PodDisruptionBudget"] + "/w")["status"]
    names = lambda: sorted(p["metadata"]["name"] for p in pods_of(t, "w") if not p["metadata"].get("deletionTimestamp"))

    def gate(name, status):
        t.patch(f"{PODS}/{name}/status", {"status": {"conditions": [{"type": "example.test/up", "status": status}]}}, "strategic")
        t.wait(f"{name} Ready={status}", lambda: condition(t.pod(name), "Ready")[0] == status, 20)

    def all_ready():
        t.wait("three pods", lambda: len(names()) == 3 and all(condition(t.pod(n), "ContainersReady")[0] == "True" for n in names()), 40)
        for name in names():
            gate(name, "True")
        healthy(3)

    def healthy(n):
        t.wait(f"the budget counts {n}", lambda: (budget().get("currentHealthy"), budget().get("desiredHealthy"), budget().get("disruptionsAllowed")) == (n, 2, max(0, n - 2)), 20)

    def refused(code, answer):
        assert (code, answer["reason"], answer["details"]["causes"][0]["reason"]) == (429, "TooManyRequests", "DisruptionBudget"), (code, answer)

    all_ready()
    a, b, _ = names()
    before = t.pod(a)["metadata"]["resourceVersion"]
    assert t.evict(a, dryRun=["All"])[0] == 201 and t.pod(a)["metadata"]["resourceVersion"] == before and budget()["disruptionsAllowed"] == 1
    assert t.evict(a)[0] == 201
    refused(*t.evict(b))
    all_ready()
    a, b, c = names()
    gate(a, "False")
    healthy(2)
    assert t.evict(a)[0] == 201
    refused(*t.evict(b))
    all_ready()
    a, b, c = names()
    gate(a, "False")
    gate(b, "False")
    healthy(1)
    refused(*t.evict(a))
    t.patch(PATHS["PodDisruptionBudget"] + "/w", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    t.wait("the budget was looked at", lambda: budget()["observedGeneration"] == 2, 20)
    assert t.evict(a)[0] == 201
    pending = {"metadata": {"name": "waits", "labels": {"app": "waits"}}, "spec": {"nodeSelector": {"no": "node"}, "containers": [{"name": "c", "image": "x"}]}}
    t.post(PODS, pending)
    t.post(PATHS["PodDisruptionBudget"], {"metadata": {"name": "waits"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "waits"}}}})
    assert t.evict("waits")[0] == 201


@case("C037")
def c037(t):
    """Conditions become taints and go with them; what the user set is not the agent's to change."""
    t.create("C037.yaml")
    agent_less = {"metadata": {"name": "bare"}, "status": {"capacity": {"cpu": "1", "pods": "10"}}}
    t.post(NODES, agent_less)
    t.agent("n-net")
    key = "node.kubernetes.io/network-unavailable"
    t.wait("the taint", lambda: has_taint(t.get(f"{NODES}/n-net"), key, "NoSchedule"), 10)
    t.wait("node Ready", lambda: t.node_is("n-net", "True"), 40)
    t.wait("p is told of the taint", lambda: told(t, "p", key), 20)
    heartbeat = lambda: next(c["lastHeartbeatTime"] for c in t.get(f"{NODES}/n-net")["status"]["conditions"] if c["type"] == "Ready")
    assert condition(t.get(f"{NODES}/n-net"), "NetworkUnavailable")[0] == "True", heartbeat()
    ready = {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    t.patch(f"{NODES}/n-net/status", {"status": {"conditions": [ready]}}, "strategic")
    t.wait("the taint is gone", lambda: not has_taint(t.get(f"{NODES}/n-net"), key, "NoSchedule"), 10)
    t.wait("p Ready", lambda: t.running("p"), 20)
    for kind, key in (("MemoryPressure", "memory-pressure"), ("DiskPressure", "disk-pressure"), ("PIDPressure", "pid-pressure")):
        for status in ("True", "False"):
            t.patch(f"{NODES}/bare/status", {"status": {"conditions": [{"type": kind, "status": status}]}}, "strategic")
            t.wait(f"{kind} {status}", lambda: has_taint(t.get(f"{NODES}/bare"), "node.kubernetes.io/" + key, "NoSchedule") == (status == "True"), 10)
    for value in (True, False):
        t.patch(f"{NODES}/bare", {"spec": {"unschedulable": value}})
        t.wait(f"unschedulable {value}", lambda: has_taint(t.get(f"{NODES}/bare"), "node.kubernetes.io/unschedulable", "NoSchedule") == value, 10)
