// What pods make of an ImagePuller that its node's owner gives: pulls whose end is told, errors, a disk that fills.
#include "agent/pod/image_puller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "agent/pod/pull_secrets.h"
#include "base/digest.h"
#include "tests/support/pod_test_host.h"

namespace ghostfleet {
namespace {

using agent::PullResult;
using agent::PullTicket;
using kube::get_string;
using kube::Json;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::FakeCluster;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Does what the test says, and writes down what it was asked.
class ScriptedPuller final : public agent::ImagePuller {
 public:
  bool present(std::string_view image, TimePoint) override { return images.contains(std::string(image)); }
  TimePoint begin(PullTicket ticket, std::string_view image, TimePoint) override {
    begun.emplace_back(image);
    on_their_way[std::string(image)] = ticket;
    return agent::kPullEndIsTold;
  }
  PullResult end(PullTicket, std::string_view image, TimePoint) override {
    taken.emplace_back(image);
    return result;
  }
  void adopt(std::string_view image, TimePoint) override { adopted.emplace_back(image); }
  bool real() const override { return pulls_really; }
  void give_secrets(PullTicket, std::vector<agent::PullSecret> given) override { keep(given); }
  bool open_to_all(std::string_view) override { return everybodys; }
  bool open_to(std::string_view, const std::vector<agent::PullSecret>& given) override {
    keep(given);
    return std::any_of(given.begin(), given.end(), [](const auto& s) { return s.config == "{\"good\":1}"; });
  }
  std::string id_of(std::string_view image) override {
    const auto it = ids.find(std::string(image));
    return it == ids.end() ? std::string() : it->second;
  }
  void begin_read(agent::ReadTicket ticket, std::string_view image, std::string_view path,
                  std::vector<agent::PullSecret> given) override {
    reads.emplace_back(std::string(image) + " " + std::string(path));
    read_tickets.push_back(ticket);
    keep(given);
  }
  void keep(const std::vector<agent::PullSecret>& given) {
    secrets.emplace();
    for (const agent::PullSecret& secret : given) secrets->push_back(secret.config);
  }
  std::optional<agent::DiskRoom> disk_room() override { return room; }
  void remove_unused(TimePoint) override {
    ++removals;
    if (room && freed > 0) room->available += freed;
  }

  std::set<std::string> images;
  std::vector<std::string> begun, taken, adopted, reads;
  std::vector<agent::ReadTicket> read_tickets;
  std::map<std::string, PullTicket> on_their_way;
  PullResult result{{}, seconds(3), 123456789};
  bool pulls_really = false, everybodys = true;
  std::optional<std::vector<std::string>> secrets;
  std::map<std::string, std::string> ids;
  std::optional<agent::DiskRoom> room;
  int64_t freed = 0;
  int removals = 0;
};

Json pod_of(const std::string& name, const std::string& image, const std::string& behavior = "",
            const std::string& policy = "IfNotPresent") {
  return kube::parse_json(R"({"metadata":{"name":")" + name + R"(","annotations":{"behavior.ghostfleet.dev/c":")" +
                          behavior + R"("}},"spec":{"containers":[{"name":"c","image":")" + image +
                          R"(","imagePullPolicy":")" + policy + R"("}]}})")
      .value();
}

class ImagePullerTest : public ::testing::TestWithParam<bool> {
 protected:
  ImagePullerTest() : cluster_(options()) {}
  FakeCluster::Options options() {
    FakeCluster::Options o;
    o.pods.full_fidelity = GetParam();
    o.puller = &puller_;
    return o;
  }
  void told(const std::string& image) { cluster_.manager().on_image_pulled(puller_.on_their_way.at(image)); }
  std::string waiting(const std::string& pod, const std::string& what) {
    return std::string(
        get_string(kube::get_array(*cluster_.pod(pod), "status.containerStatuses")->at(0), "state.waiting." + what));
  }
  std::string phase(const std::string& pod) { return std::string(cluster_.text(pod, "status.phase")); }

  ScriptedPuller puller_;
  FakeCluster cluster_;
};

INSTANTIATE_TEST_SUITE_P(Fidelity, ImagePullerTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "full" : "light"; });

TEST_P(ImagePullerTest, APodWaitsUntilItsPullIsTold) {
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.run_for(minutes(20));
  EXPECT_EQ(phase("a"), "Pending");
  EXPECT_EQ(waiting("a", "reason"), "ContainerCreating");
  EXPECT_THAT(puller_.begun, ElementsAre("r.example/app:1"));
  told("r.example/app:1");
  cluster_.run_for(seconds(2));
  EXPECT_EQ(phase("a"), "Running");
  EXPECT_THAT(puller_.taken, ElementsAre("r.example/app:1"));
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Normal Pulling x1 spec.containers{c}: Pulling image")));
  EXPECT_THAT(cluster_.events("a"),
              Contains(AllOf(HasSubstr("Successfully pulled image \"r.example/app:1\" in 3s (19m59."),
                             HasSubstr(" including waiting). Image size: 123456789 bytes."))));
}

TEST_P(ImagePullerTest, WhatIsThereIsNotPulledUnlessThePodSaysAlways) {
  puller_.images = {"r.example/app:1"};
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.create(pod_of("b", "r.example/app:1", "", "Always"));
  cluster_.create(pod_of("n", "r.example/other:1", "", "Never"));
  cluster_.run_for(seconds(5));
  EXPECT_EQ(phase("a"), "Running");
  EXPECT_EQ(phase("b"), "Pending");
  EXPECT_THAT(puller_.begun, ElementsAre("r.example/app:1"));
  EXPECT_EQ(waiting("n", "reason"), "ErrImageNeverPull");
}

TEST_P(ImagePullerTest, AnErrorIsShownAsItIsAndBackedOffFrom) {
  puller_.result = {"pull QPS exceeded", Duration(0), 0};
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.run_for(milliseconds(500));
  told("r.example/app:1");
  cluster_.run_for(seconds(2));
  EXPECT_EQ(waiting("a", "reason"), "ErrImagePull");
  EXPECT_EQ(waiting("a", "message"), "pull QPS exceeded");
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Warning Failed x1 spec.containers{c}: Failed to pull image "
                                                       "\"r.example/app:1\": pull QPS exceeded")));
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Error: ErrImagePull")));
  cluster_.run_for(seconds(8));
  EXPECT_EQ(puller_.begun.size(), 1u);
  puller_.result = {};
  cluster_.run_for(seconds(20));
  EXPECT_EQ(puller_.begun.size(), 2u);
  told("r.example/app:1");
  cluster_.run_for(seconds(2));
  EXPECT_EQ(phase("a"), "Running");
}

TEST_P(ImagePullerTest, BackOffNamesTheError) {
  puller_.result = {"no such thing", Duration(0), 0};
  cluster_.create(pod_of("a", "r.example/app:1"));
  for (int i = 0; i < 120 && (puller_.begun.size() < 2 || waiting("a", "reason") != "ImagePullBackOff"); ++i) {
    cluster_.run_for(seconds(1));
    if (puller_.begun.size() > puller_.taken.size()) told("r.example/app:1");
  }
  EXPECT_GE(puller_.begun.size(), 2u);
  EXPECT_EQ(waiting("a", "reason"), "ImagePullBackOff");
  EXPECT_EQ(waiting("a", "message"), "Back-off pulling image \"r.example/app:1\": ErrImagePull: no such thing");
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Error: ImagePullBackOff")));
}

TEST_P(ImagePullerTest, APullNobodyWaitsForIsTakenOffThePuller) {
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.run_for(seconds(2));
  cluster_.remove("a", 0);
  cluster_.run_for(seconds(2));
  told("r.example/app:1");
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
  EXPECT_EQ(puller_.taken.size(), 1u);
  // The slot is another pod's by now.
  const PullTicket old = puller_.on_their_way.at("r.example/app:1");
  cluster_.create(pod_of("b", "r.example/app:2"));
  cluster_.run_for(seconds(2));
  cluster_.manager().on_image_pulled(old);
  cluster_.run_for(seconds(2));
  EXPECT_EQ(puller_.taken.size(), 2u);
  EXPECT_EQ(phase("b"), "Pending");
  told("r.example/app:2");
  cluster_.run_for(seconds(2));
  EXPECT_EQ(phase("b"), "Running");
}

TEST_P(ImagePullerTest, ARestartFindsTheImagesOfItsContainers) {
  puller_.images = {"r.example/app:1"};
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.create(pod_of("b", "r.example/other:1"));
  cluster_.run_for(seconds(2));
  EXPECT_THAT(puller_.adopted, IsEmpty());
  cluster_.restart_agent();
  EXPECT_THAT(puller_.adopted, ElementsAre("r.example/app:1"));
  EXPECT_TRUE(cluster_.manager().uses_image("r.example/app:1"));
  EXPECT_FALSE(cluster_.manager().uses_image("r.example/other:1"));  // it has no container yet
}

std::string image_id_of(FakeCluster& cluster, const std::string& pod) {
  return std::string(get_string(kube::get_array(*cluster.pod(pod), "status.containerStatuses")->at(0), "imageID"));
}

TEST_P(ImagePullerTest, TheIdOfARealImageIsToldAndStaysWhenItsTagMoves) {
  puller_.pulls_really = true;
  puller_.images = {"r.example/app:1"};
  puller_.ids = {{"r.example/app:1", "r.example/app@sha256:old"}};
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.run_for(seconds(3));
  EXPECT_EQ(image_id_of(cluster_, "a"), "r.example/app@sha256:old");
  puller_.ids["r.example/app:1"] = "r.example/app@sha256:new";
  cluster_.restart_agent();
  cluster_.create(pod_of("b", "r.example/app:1"));
  cluster_.run_for(minutes(2));
  EXPECT_EQ(image_id_of(cluster_, "a"), "r.example/app@sha256:old");
  EXPECT_EQ(image_id_of(cluster_, "b"), "r.example/app@sha256:new");
}

TEST_P(ImagePullerTest, AnImageIsInUseByItsIdAsWell) {
  puller_.pulls_really = true;
  puller_.images = {"r.example/app:1"};
  puller_.ids = {{"r.example/app:1", "r.example/app@sha256:old"}};
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.run_for(seconds(3));
  for (const char* name : {"r.example/app:1", "r.example/app@sha256:old"})
    EXPECT_TRUE(cluster_.manager().uses_image(name)) << name;
  EXPECT_FALSE(cluster_.manager().uses_image("r.example/app@sha256:new"));
}

Json pull_secret(const std::string& name, const std::string& type, const std::string& key, const std::string& text) {
  return kube::parse_json(R"({"metadata":{"name":")" + name + R"("},"type":")" + type + R"(","data":{")" + key +
                          R"(":")" + base64_encode(text) + R"("}})")
      .value();
}

TEST_P(ImagePullerTest, ARealPullHasThePodsSecretsAsTheyAreNow) {
  puller_.pulls_really = true;
  puller_.result = {"no", Duration(0), 0};
  cluster_.put_object("secrets",
                      pull_secret("one", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{\"auths\":{}}"));
  cluster_.put_object("secrets", pull_secret("two", "kubernetes.io/dockercfg", ".dockercfg", "{\"r\":{}}"));
  Json pod = pod_of("a", "r.example/app:1");
  kube::set_path(pod, "spec.imagePullSecrets",
                 kube::parse_json(R"([{"name":"one"},{"name":"gone"},{"name":"two"}])").value());
  cluster_.create(std::move(pod));
  cluster_.run_for(seconds(3));
  ASSERT_EQ(puller_.secrets.has_value(), GetParam());  // light nodes read no secrets
  if (!GetParam()) return;
  EXPECT_THAT(*puller_.secrets, ElementsAre("{\"auths\":{}}", "", "{\"auths\":{\"r\":{}}}"));
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("FailedToRetrieveImagePullSecret")));
  // The secret is another one when it is tried again.
  cluster_.put_object("secrets",
                      pull_secret("one", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{\"new\":1}"));
  told("r.example/app:1");
  cluster_.run_for(seconds(40));
  ASSERT_EQ(puller_.begun.size(), 2u);
  EXPECT_EQ(puller_.secrets->front(), "{\"new\":1}");
  puller_.result = {};
  told("r.example/app:1");
  cluster_.run_for(seconds(3));
  EXPECT_EQ(phase("a"), "Running");
}

// An image that another pod has pulled with its secrets.
TEST_P(ImagePullerTest, AnImageThatIsThereIsOnlyForPodsThatMayHaveIt) {
  if (!GetParam()) return;  // real pulls are for full fidelity
  puller_.pulls_really = true;
  puller_.everybodys = false;
  puller_.images = {"r.example/app:1"};
  puller_.result = {"answered 401", Duration(0), 0};
  const std::string type = "kubernetes.io/dockerconfigjson", key = ".dockerconfigjson";
  cluster_.put_object("secrets", pull_secret("good", type, key, "{\"good\":1}"));
  cluster_.put_object("secrets", pull_secret("bad", type, key, "{\"bad\":1}"));
  const auto create = [&](const std::string& name, const std::string& policy, const std::string& secret) {
    Json pod = pod_of(name, "r.example/app:1", "", policy);
    if (!secret.empty())
      kube::set_path(pod, "spec.imagePullSecrets", kube::parse_json(R"([{"name":")" + secret + R"("}])").value());
    cluster_.create(std::move(pod));
    cluster_.run_for(seconds(3));
  };
  create("good", "IfNotPresent", "good");
  EXPECT_EQ(phase("good"), "Running");
  EXPECT_THAT(cluster_.events("good"),
              Contains(HasSubstr("already present on machine and can be accessed by the pod")));
  create("good-never", "Never", "good");
  EXPECT_EQ(phase("good-never"), "Running");
  EXPECT_THAT(puller_.begun, IsEmpty());
  for (const std::string secret : {"", "bad"}) {
    create("never" + secret, "Never", secret);
    EXPECT_EQ(waiting("never" + secret, "reason"), "ErrImageNeverPull");
    EXPECT_THAT(cluster_.events("never" + secret),
                Contains(HasSubstr("Container image \"r.example/app:1\" is not present with pull policy of Never")));
    create("pulls" + secret, "IfNotPresent", secret);
    ASSERT_EQ(puller_.begun.size(), secret.empty() ? 1u : 2u);
    told("r.example/app:1");
    cluster_.run_for(seconds(2));
    EXPECT_EQ(waiting("pulls" + secret, "reason"), "ErrImagePull");
    EXPECT_EQ(waiting("pulls" + secret, "message"), "answered 401");
  }
  // They are tried again, and back off.
  for (int i = 0; i < 100 && waiting("pullsbad", "reason") != "ImagePullBackOff"; ++i) {
    cluster_.run_for(seconds(1));
    if (puller_.begun.size() > puller_.taken.size()) told("r.example/app:1");
  }
  EXPECT_EQ(waiting("pullsbad", "reason"), "ImagePullBackOff");
  // A Secret that becomes right lets its pod in.
  cluster_.put_object("secrets", pull_secret("bad", type, key, "{\"good\":1}"));
  for (int i = 0; i < 300 && phase("pullsbad") != "Running"; ++i) {
    cluster_.run_for(seconds(1));
    if (puller_.begun.size() > puller_.taken.size()) told("r.example/app:1");
  }
  EXPECT_EQ(phase("pullsbad"), "Running");
  EXPECT_EQ(waiting("neverbad", "reason"), "");
}

TEST_P(ImagePullerTest, AModelIsGivenNoSecrets) {
  cluster_.put_object("secrets", pull_secret("one", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{}"));
  Json pod = pod_of("a", "r.example/app:1");
  kube::set_path(pod, "spec.imagePullSecrets", kube::parse_json(R"([{"name":"one"}])").value());
  cluster_.create(std::move(pod));
  cluster_.run_for(seconds(3));
  EXPECT_EQ(puller_.begun.size(), 1u);
  EXPECT_FALSE(puller_.secrets);
}

TEST(PullSecrets, OnlyOfTheirTypesAndReadable) {
  const std::string type = "kubernetes.io/dockerconfigjson", key = ".dockerconfigjson";
  EXPECT_EQ(agent::docker_config_of(pull_secret("s", type, key, "{\"auths\":{}}")), "{\"auths\":{}}");
  EXPECT_EQ(agent::docker_config_of(pull_secret("s", "Opaque", key, "{\"auths\":{}}")), "");
  EXPECT_EQ(agent::docker_config_of(pull_secret("s", type, "other", "{}")), "");
  EXPECT_EQ(agent::docker_config_of(pull_secret("s", type, key, "no JSON")), "");
  EXPECT_EQ(agent::docker_config_of(kube::parse_json("{}").value()), "");
}

TEST_P(ImagePullerTest, AnEndedContainerHoldsItsImageToo) {
  puller_.images = {"busybox"};
  Json pod = pod_of("a", "busybox", "exit=0 after=1s");
  kube::set_path(pod, "spec.restartPolicy", kube::JsonString("Never"));
  cluster_.create(std::move(pod));
  cluster_.run_for(seconds(5));
  EXPECT_EQ(phase("a"), "Succeeded");
  EXPECT_TRUE(cluster_.manager().uses_image("docker.io/library/busybox:latest"));
  cluster_.remove("a");
  cluster_.run_for(seconds(5));
  EXPECT_FALSE(cluster_.manager().uses_image("docker.io/library/busybox:latest"));
}

TEST_P(ImagePullerTest, ImagesAloneMakeDiskPressureAndGoBeforePodsDo) {
  puller_.images = {"r.example/app:1"};
  puller_.room = {1000, 500};
  cluster_.create(pod_of("a", "r.example/app:1"));
  cluster_.run_for(minutes(1));
  EXPECT_THAT(cluster_.node_news(), IsEmpty());
  puller_.room->available = 120;
  puller_.freed = 400;
  cluster_.manager().on_images_changed();
  cluster_.run_for(seconds(11));
  EXPECT_THAT(cluster_.node_news(), ElementsAre("pressure DiskPressure", "reclaiming ephemeral-storage"));
  EXPECT_EQ(puller_.removals, 1);
  EXPECT_EQ(phase("a"), "Running");
  cluster_.run_for(minutes(6));
  EXPECT_THAT(cluster_.node_news(), ElementsAre("pressure DiskPressure", "reclaiming ephemeral-storage", "pressure "));
  EXPECT_EQ(phase("a"), "Running");
  EXPECT_EQ(puller_.removals, 1);
}

TEST_P(ImagePullerTest, WhenImagesCannotGoAPodDoes) {
  puller_.images = {"r.example/app:1"};
  puller_.room = {1000, 100};
  cluster_.create(pod_of("a", "r.example/app:1", "stop=143"));
  cluster_.run_for(seconds(2));
  EXPECT_EQ(phase("a"), "Running");
  cluster_.manager().on_images_changed();
  cluster_.run_for(seconds(15));
  EXPECT_GE(puller_.removals, 1);
  EXPECT_EQ(phase("a"), "Failed");
  EXPECT_EQ(cluster_.text("a", "status.reason"), "Evicted");
  EXPECT_THAT(std::string(cluster_.text("a", "status.message")),
              HasSubstr("The node was low on resource: ephemeral-storage."));
}

TEST_P(ImagePullerTest, WhatPodsUseOfTheDiskIsToldToThePuller) {
  puller_.images = {"r.example/app:1"};
  cluster_.create(pod_of("a", "r.example/app:1", "storage=2Gi"));
  cluster_.create(pod_of("b", "r.example/app:1"));
  EXPECT_EQ(cluster_.manager().storage_used(), 0);
  cluster_.run_for(seconds(5));
  EXPECT_EQ(cluster_.manager().storage_used(), int64_t{2} << 30);
}

// The rules of PodOptions are a puller as well.
TEST(ImageRules, AnImageOfARunningPodIsThereAfterARestart) {
  FakeCluster cluster({});
  cluster.create(pod_of("a", "r.example/slow:1"));
  cluster.run_for(seconds(8));
  EXPECT_EQ(cluster.text("a", "status.phase"), "Running");
  cluster.restart_agent();
  cluster.create(pod_of("b", "r.example/slow:1"));
  cluster.run_for(seconds(2));
  EXPECT_EQ(cluster.text("b", "status.phase"), "Running");
}

// Containers that read files of their images.
class ImageReadTest : public ImagePullerTest {
 protected:
  ImageReadTest() {
    puller_.pulls_really = true;
    puller_.images = {"r.example/app:1"};
    puller_.ids = {{"r.example/app:1", "r.example/app@sha256:1"}};
  }
  void create(const std::string& behavior, const std::string& restart = "Always") {
    Json pod = pod_of("a", "r.example/app:1", behavior);
    kube::set_path(pod, "spec.restartPolicy", kube::JsonString(restart));
    cluster_.create(std::move(pod));
  }
  bool reads_come_to(size_t count) {
    for (int i = 0; i < 60 && puller_.reads.size() < count; ++i) cluster_.run_for(seconds(1));
    return puller_.reads.size() == count;
  }
  Json status() { return kube::get_array(*cluster_.pod("a"), "status.containerStatuses")->at(0); }
  int64_t number(std::string_view path) { return kube::get_int(status(), path, -1); }
  // Of the last read that was begun.
  void tell(agent::ReadEnd end) { cluster_.manager().on_image_read(puller_.read_tickets.back(), end); }
  std::string last_words(bool previous) {
    const auto pods = cluster_.manager().describe({});
    const agent::ContainerView& c = pods.at(0).containers.at(0);
    return (previous ? c.previous : c.current).last_words;
  }
};
INSTANTIATE_TEST_SUITE_P(Fidelity, ImageReadTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "full" : "light"; });

TEST_P(ImageReadTest, FilesAreReadAtTheirAgesOneAfterTheOther) {
  create("read=30s:/late read=0s:/first read=10s:/second exit=3 after=1m", "Never");
  cluster_.run_for(seconds(5));
  EXPECT_THAT(puller_.reads, ElementsAre("r.example/app@sha256:1 /first"));
  cluster_.run_for(seconds(60));
  EXPECT_THAT(puller_.reads, ElementsAre("r.example/app@sha256:1 /first")) << "it waits for the one before";
  EXPECT_EQ(phase("a"), "Running") << "and does not end meanwhile";
  tell(agent::ReadEnd::kRead);
  cluster_.run_for(seconds(15));
  ASSERT_EQ(puller_.reads.size(), 2u);
  tell(agent::ReadEnd::kRead);
  cluster_.run_for(seconds(10));
  EXPECT_EQ(puller_.reads.size(), 2u);
  cluster_.run_for(seconds(10));
  ASSERT_EQ(puller_.reads.size(), 3u);
  tell(agent::ReadEnd::kRead);
  EXPECT_EQ(phase("a"), "Running");
  cluster_.run_for(seconds(45));
  EXPECT_EQ(phase("a"), "Failed");
  EXPECT_EQ(number("state.terminated.exitCode"), 3);
}

TEST_P(ImageReadTest, AFileThatCannotBeReadEndsTheContainerAndItBacksOff) {
  create("read=5s:/data/w read-exit=74");
  for (int attempt = 0; attempt < 3; ++attempt) {
    ASSERT_TRUE(reads_come_to(static_cast<size_t>(attempt) + 1)) << attempt;
    tell(agent::ReadEnd::kInputOutput);
    cluster_.run_for(seconds(3));
    EXPECT_EQ(last_words(attempt == 0), "/data/w: Input/output error")
        << attempt;  // the first one starts again at once
  }
  for (int i = 0; i < 300 && waiting("a", "reason") != "CrashLoopBackOff"; ++i) {
    cluster_.run_for(seconds(1));
    tell(agent::ReadEnd::kInputOutput);
  }
  EXPECT_EQ(waiting("a", "reason"), "CrashLoopBackOff");
  EXPECT_GE(number("restartCount"), 2);
  EXPECT_EQ(number("lastState.terminated.exitCode"), 74);
  EXPECT_THAT(cluster_.events("a"), Contains(HasSubstr("Back-off restarting failed container c")));
}

TEST_P(ImageReadTest, AnAnswerForAnAttemptThatIsOverChangesNothing) {
  create("read=1s:/w exit=0 after=1h stop=0", "Never");
  cluster_.run_for(seconds(5));
  ASSERT_EQ(puller_.read_tickets.size(), 1u);
  cluster_.remove("a", 1);
  cluster_.run_for(seconds(10));
  tell(agent::ReadEnd::kInputOutput);
  cluster_.manager().on_image_read(12345, agent::ReadEnd::kRead);
  cluster_.run_for(seconds(10));
  EXPECT_EQ(cluster_.pod("a"), nullptr);
}

TEST_P(ImageReadTest, ARestartOfTheAgentGoesOnWithWhatIsStillToBeRead) {
  create("read=5s:/early read=1m:/late");
  ASSERT_TRUE(reads_come_to(1));
  tell(agent::ReadEnd::kRead);
  cluster_.run_for(seconds(20));
  cluster_.restart_agent();
  ASSERT_TRUE(reads_come_to(2));
  EXPECT_EQ(puller_.reads.back(), "r.example/app@sha256:1 /late");
  tell(agent::ReadEnd::kNoSuchFile);
  cluster_.run_for(seconds(3));
  EXPECT_EQ(last_words(true), "/late: No such file or directory");
  EXPECT_EQ(number("restartCount"), 1);
}

TEST_P(ImageReadTest, AReadHasThePodsSecretsAsTheyAreNow) {
  Json pod = pod_of("a", "r.example/app:1", "read=1s:/w");
  kube::set_path(pod, "spec.imagePullSecrets", kube::parse_json(R"([{"name":"one"},{"name":"gone"}])").value());
  cluster_.put_object("secrets", pull_secret("one", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{}"));
  cluster_.create(std::move(pod));
  ASSERT_TRUE(reads_come_to(1));
  if (GetParam()) {
    EXPECT_THAT(*puller_.secrets, ElementsAre("{}", ""));
  }
  tell(agent::ReadEnd::kInputOutput);
  cluster_.put_object("secrets",
                      pull_secret("one", "kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{\"new\":1}"));
  ASSERT_TRUE(reads_come_to(2));
  if (GetParam()) {
    EXPECT_THAT(*puller_.secrets, ElementsAre("{\"new\":1}", ""));
  }
}

TEST_P(ImageReadTest, ImagesThatAreNotReallyPulledAreNotRead) {
  puller_.pulls_really = false;
  create("read=1s:/w");
  cluster_.run_for(minutes(1));
  EXPECT_TRUE(puller_.reads.empty());
  EXPECT_EQ(phase("a"), "Running");
}

}  // namespace
}  // namespace ghostfleet
