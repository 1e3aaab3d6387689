"""G1: what a node makes of its pods. Inputs in tests/data/cases; where a report set delays by rules of its own emulator, an annotation of ours says the same."""
import signal
import time

from case_support import EVENTS, JOBS, PODS, SHORT_GRACE, case, condition, seconds, what_stays


def job_pods(t, name):
    return t.items(f"{PODS}?labelSelector=job-name%3D{name}")


def ran(pod, container=0):
    """How long a container ran."""
    end = pod["status"]["containerStatuses"][container]["state"]["terminated"]
    return seconds(end["finishedAt"]) - seconds(end["startedAt"])


def job_condition(t, name, kind):
    return condition(t.get(f"{JOBS}/{name}"), kind)[0]


@case("C001", *SHORT_GRACE)
def c001(t):
    """Heartbeats stop for longer than the grace period and come back."""
    t.create("C001.yaml")
    agent = t.agent()
    t.wait("pod Ready", lambda: t.count("app=web") == 1, 40)
    pod = t.items(PODS)[0]
    name, since = pod["metadata"]["name"], condition(pod, "Ready")[1]
    agent.send_signal(signal.SIGSTOP)
    t.wait("node Unknown", lambda: condition(t.get("/api/v1/nodes/n-a1"), "Ready")[0] == "Unknown", 60)
    t.wait("pod not Ready", lambda: condition(t.pod(name), "Ready")[0] == "False", 10)
    assert t.pod(name)["status"]["phase"] == "Running"
    time.sleep(3)
    agent.send_signal(signal.SIGCONT)
    t.wait("node Ready again", lambda: condition(t.get("/api/v1/nodes/n-a1"), "Ready")[0] == "True", 20)
    t.wait("pod Ready again", lambda: condition(t.pod(name), "Ready")[0] == "True", 15)
    after = t.pod(name)
    assert condition(after, "Ready")[1] > since, "the transition time is not new"
    assert what_stays(after) == what_stays(pod), (what_stays(after), what_stays(pod))


@case("C003")
def c003(t):
    """A delay from an annotation, without one, and one that makes no sense: never at once, never stuck, and told."""
    t.create("C003.yaml")
    t.agent()
    t.wait("all Jobs complete", lambda: all(job_condition(t, n, "Complete") == "True" for n in ("plain", "three", "bad")), 60)
    for name, least, most in (("plain", 10, 12), ("three", 3, 5), ("bad", 1, 3)):
        for pod in job_pods(t, name):
            assert least <= ran(pod) <= most, (name, ran(pod))
    bad = job_pods(t, "bad")[0]["metadata"]["name"]
    told = t.events(bad, "InvalidBehavior")
    assert len(told) == 1 and told[0]["type"] == "Warning" and "behavior.ghostfleet.dev/c" in told[0]["message"] and "soon" in told[0]["message"], told
    assert not any(t.events(p["metadata"]["name"], "InvalidBehavior") for p in job_pods(t, "plain") + job_pods(t, "three"))


@case("C004")
def c004(t):
    """Five hundred pods of one node end at the same moment, and are deleted together."""
    t.create("C004.yaml")
    t.agent("n-big", capacity="cpu=64,memory=256Gi,pods=1000")
    t.wait("500 succeeded", lambda: (t.get(f"{JOBS}/burst")["status"].get("succeeded"), job_condition(t, "burst", "Complete")) == (500, "True"), 150)
    pods = job_pods(t, "burst")
    assert len(pods) == 500 and all(p["status"]["phase"] == "Succeeded" for p in pods)
    late = [ran(p) for p in pods if not 10 <= ran(p) <= 12]
    assert not late, f"{len(late)} of 500 did not run for 10 s, but {sorted(set(late))[:5]} s"
    code, answer = t.p.request("DELETE", f"{JOBS}/burst", {"propagationPolicy": "Foreground"})
    assert code == 200, answer
    t.wait("no pod and no Job is left", lambda: not job_pods(t, "burst") and t.get(f"{JOBS}/burst") is None, 60)


@case("C005")
def c005(t):
    """A finalizer of somebody else holds a deleted pod."""
    t.create("C005.yaml")
    t.agent()
    t.wait("pod Ready", lambda: t.running("held"), 40)
    t.delete("held")
    t.wait("containers ended", lambda: "terminated" in t.pod("held")["status"]["containerStatuses"][0]["state"], 15)
    t.wait("grace 0", lambda: t.pod("held")["metadata"].get("deletionGracePeriodSeconds") == 0, 15)
    held = t.pod("held")
    assert held["metadata"]["finalizers"] == ["example.test/hold"] and held["metadata"]["deletionTimestamp"], held["metadata"]
    assert condition(held, "Ready")[0] == "False", held["status"]["conditions"]
    time.sleep(15)
    assert t.pod("held")["metadata"]["resourceVersion"] == held["metadata"]["resourceVersion"], "something writes the held pod again and again"
    code, _ = t.p.request("PATCH", f"{PODS}/held", [{"op": "remove", "path": "/metadata/finalizers"}], "application/json-patch+json")
    assert code == 200, code
    t.wait("gone", lambda: t.pod("held") is None, 2)


@case("C007")
def c007(t):
    """A condition of somebody else and the scheduler's one stay; a pod that has ended is not Ready."""
    t.create("C007.yaml")
    t.agent()
    t.wait("containers ready", lambda: any(condition(p, "ContainersReady")[0] == "True" for p in job_pods(t, "gated")), 40)
    pod = job_pods(t, "gated")[0]
    name, scheduled = pod["metadata"]["name"], condition(pod, "PodScheduled")
    assert condition(pod, "Ready")[0] == "False", pod["status"]["conditions"]
    assert next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")["reason"] == "ReadinessGatesNotReady"
    gate = {"type": "example.test/gate", "status": "True", "reason": "Tested", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    t.patch(f"{PODS}/{name}/status", {"status": {"conditions": [gate]}}, "strategic")
    t.wait("Ready through the gate", lambda: t.running(name), 15)
    assert condition(t.pod(name), "PodScheduled") == scheduled and condition(t.pod(name), "example.test/gate") == ("True", "2026-01-01T00:00:00Z")
    t.wait("succeeded", lambda: t.pod(name)["status"]["phase"] == "Succeeded", 40)
    status = t.pod(name)["status"]
    reasons = {c["type"]: (c["status"], c.get("reason")) for c in status["conditions"]}
    assert len(reasons) == len(status["conditions"]), "a condition is there twice"
    assert reasons["Initialized"] == ("True", "PodCompleted"), reasons
    assert reasons["Ready"] == reasons["ContainersReady"] == ("False", "PodCompleted"), reasons
    assert condition(t.pod(name), "PodScheduled") == scheduled and reasons["example.test/gate"] == ("True", "Tested"), reasons
    init = status["initContainerStatuses"][0]["state"]["terminated"]
    assert (init["reason"], init["exitCode"]) == ("Completed", 0), init


@case("C009")
def c009(t):
    """Two containers end, the second in error: phase, codes and what a table shows."""
    t.create("C009.yaml")
    t.agent()
    ended = lambda: [("terminated" in s["state"]) for p in job_pods(t, "two") for s in p["status"].get("containerStatuses", [])]
    t.wait("only a has ended", lambda: ended() == [True, False], 40)
    pod = job_pods(t, "two")[0]
    name = pod["metadata"]["name"]
    row = lambda: t.p.request("GET", f"{PODS}/{name}", headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})[1]["rows"][0]["cells"]
    assert pod["status"]["phase"] == "Running" and row()[1] == "1/2", (pod["status"]["phase"], row())
    t.wait("pod Failed", lambda: t.pod(name)["status"]["phase"] == "Failed", 40)
    ends = [(s["name"], s["state"]["terminated"]["exitCode"], s["state"]["terminated"]["reason"]) for s in t.pod(name)["status"]["containerStatuses"]]
    assert ends == [("a", 0, "Completed"), ("z", 1, "Error")], ends
    assert row()[1:3] == ["0/2", "Completed"], row()
    t.wait("Job Failed", lambda: job_condition(t, "two", "Failed") == "True", 20)
    job = t.get(f"{JOBS}/two")["status"]
    assert job["failed"] == 1 and next(c for c in job["conditions"] if c["type"] == "Failed")["reason"] == "BackoffLimitExceeded", job


@case("C010")
def c010(t):
    """Nodes and pods that were there before anything ran them; also a pod that was there before its node."""
    t.create("C010.yaml")
    t.wait("200 pods", lambda: len(t.items(f"{PODS}?labelSelector=app%3Dearly")) == 200, 30)
    t.start("fleet", "--nodes", "21", "--profile", "m5.large", "--name", "early", "--node-name", "n-{index:2}", "--adopt")
    time.sleep(2)
    t.agent("n-late")
    t.wait("all pods Ready", lambda: t.count("app%3Dearly") == 200, 45)
    t.wait("the pod that waited for its node Ready", lambda: t.running("before-node"), 15)


@case("C011")
def c011(t):
    """The events and conditions that load testers take their times from."""
    t.create("C011.yaml")
    t.agent()
    t.wait("20 pods Ready", lambda: t.count("app%3Dlat") == 20, 60)
    pods = {p["metadata"]["name"]: p for p in t.items(PODS)}
    t.wait("an event Started for each", lambda: sum(e["reason"] == "Started" for e in t.items(EVENTS)) >= 20, 30)
    events = t.items(EVENTS)
    for name, pod in pods.items():
        mine = [e for e in events if e["involvedObject"]["name"] == name]
        for reason in ("Pulled", "Created", "Started"):
            found = [e for e in mine if e["reason"] == reason]
            assert len(found) == 1 and found[0].get("count", 1) == 1, (name, reason, len(found))
            about = found[0]["involvedObject"]
            assert (about["kind"], about["uid"], about["fieldPath"]) == ("Pod", pod["metadata"]["uid"], "spec.containers{c}"), about
        bound = [e for e in mine if e["reason"] == "Scheduled"]
        assert len(bound) == 1 and len(bound[0]["eventTime"].split(".")[1]) == len("123456Z"), bound
        order = ("PodScheduled", "PodReadyToStartContainers", "ContainersReady", "Ready")
        times = [condition(pod, kind)[1] for kind in order]
        assert condition(pod, "Initialized")[0] == "True" and all(condition(pod, kind)[0] == "True" for kind in order), pod["status"]["conditions"]
        assert times == sorted(times) and times[0] >= pod["metadata"]["creationTimestamp"], (pod["metadata"]["creationTimestamp"], times)


@case("C013")
def c013(t):
    """A pod deleted while the agent is away; a second delete with a shorter grace period."""
    t.create("C013.yaml")
    agent = t.agent()
    t.wait("pods Ready", lambda: all(t.running(n) for n in "abc"), 40)
    agent.kill()
    agent.wait()
    t.delete("a")
    assert t.pod("a")["metadata"]["deletionTimestamp"]
    t.agent()
    t.wait("a gone", lambda: t.pod("a") is None, 30)
    begin = time.monotonic()
    for name in "bc":
        t.delete(name, 20)
        assert t.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 20
    # Well before the five seconds are over, counted from the first delete in whole seconds: then the server makes them one.
    time.sleep(2)
    for name in "bc":
        t.delete(name, 5)
        assert t.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 5, t.pod(name)["metadata"]
        t.delete(name, 100)
        assert t.pod(name)["metadata"]["deletionGracePeriodSeconds"] == 5, "a longer grace must not lengthen it"
    t.wait("c gone", lambda: t.pod("c") is None, 20)
    took = time.monotonic() - begin
    assert 8 < took < 17, f"c, which stops in 9 s, was gone after {took:.1f} s"
    t.wait("b gone", lambda: t.pod("b") is None, 30)
    took = time.monotonic() - begin
    assert 19 < took < 30, f"b, which ignores TERM, was gone after {took:.1f} s: the first grace period is 20 s"
