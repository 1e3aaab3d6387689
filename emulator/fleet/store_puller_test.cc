#include "emulator/fleet/store_puller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "base/digest.h"
#include "base/files.h"
#include "emulator/fleet/fake_api.h"
#include "emulator/fleet/single_node.h"
#include "tests/support/image_builder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waits.h"

namespace ghostfleet::emulator {
namespace {

using agent::PullTicket;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using tests::eventually;

std::string digest(char c) { return "sha256:" + std::string(64, c); }

// Has what the test says; holds everything while `held`.
class FakeSource final : public image::ImageSource {
 public:
  Result<image::ImageRecord> pull(const image::PullWork& work, image::CancelFlag* cancel) override {
    users = work.secrets.size();
    while (held && cancel->sleep(milliseconds(1))) {
    }
    const std::lock_guard lock(mutex_);
    const auto it = there_.find(work.reference.to_string());
    if (it != there_.end()) return it->second;
    return not_found("manifest " + work.reference.tag + ": answered 404: MANIFEST_UNKNOWN: manifest unknown");
  }
  image::ImageRecord put(const std::string& name, char manifest, char target, uint64_t size) {
    image::ImageRecord r;
    r.reference = name;
    r.manifest = digest(manifest);
    r.target = digest(target);
    r.config = digest(static_cast<char>(manifest + 1));
    r.size = size;
    const std::lock_guard lock(mutex_);
    return there_[name] = r;
  }
  std::atomic<bool> held{false};
  std::atomic<size_t> users{0};

 private:
  std::mutex mutex_;
  std::map<std::string, image::ImageRecord> there_;
};

class FakeHost final : public PullHost {
 public:
  void pull_ended(PullTicket ticket) override { ended.insert(ticket); }
  bool image_in_use(std::string_view image) override { return in_use.contains(std::string(image)); }
  bool pods_known() override { return known; }
  void node_warning(std::string_view reason, const std::string&) override { warnings.emplace_back(reason); }
  void images_changed() override { ++changes; }
  std::set<PullTicket> ended;
  std::set<std::string> in_use;
  std::vector<std::string> warnings;
  int changes = 0;
  bool known = true;
};

class StorePullerTest : public ::testing::Test {
 protected:
  void open(image::PullLimits limits = {5, 0, 1}) {
    auto store = image::ContentStore::open(folder_.path() + "/store", image::ContentStore::Lock::kShared);
    ASSERT_TRUE(store.ok()) << store.error().message();
    store_ = store->get();
    auto source = std::make_unique<FakeSource>();
    source_ = source.get();
    auto puller = StorePuller::create(std::move(*store), std::move(source), limits, loop_);
    ASSERT_TRUE(puller.ok()) << puller.error().message();
    puller_ = std::move(*puller);
    puller_->set_host(&host_);
  }
  bool wait_for(PullTicket ticket) {
    return eventually([&] {
      loop_.run_for(milliseconds(5));
      return host_.ended.contains(ticket);
    });
  }
  bool present(const std::string& image) { return puller_->present(image, loop_.now()); }
  // In the store before the agent, with a layer of its own.
  void keep(const std::string& name, char manifest, uint64_t size) {
    auto store = image::ContentStore::open(folder_.path() + "/store", image::ContentStore::Lock::kShared);
    image::ImageRecord r = FakeSource().put(name, manifest, manifest, size);
    r.diffs = {digest(manifest)};
    r.chain = digest(manifest);
    for (const std::string& path : {(*store)->layer_path(digest(manifest)), (*store)->rootfs_path(digest(manifest))})
      ASSERT_TRUE(make_directories(path + "/root").ok());
    ASSERT_TRUE((*store)->put_image(r).ok());
  }
  std::vector<std::string> kept() {
    std::vector<std::string> out;
    const auto images = store_->images();
    for (const auto& r : *images) out.push_back(r.reference.substr(r.reference.rfind('/') + 1));
    return out;
  }
  // Rounds every few milliseconds, of a disk that is as the test says.
  void collect(Duration minimum_age = Duration(0)) {
    puller_->collect({{85, 80, minimum_age}, milliseconds(5), [this]() -> Result<DiskSpace> {
                        ++looks_;
                        return DiskSpace{1000, available_.load()};
                      }});
  }
  bool looks(int more) {
    const int from = looks_;
    return eventually([&] {
      loop_.run_for(milliseconds(5));
      return looks_ >= from + more;
    });
  }

  tests::TemporaryFolder folder_;
  EventLoop loop_;
  FakeHost host_;
  image::ContentStore* store_ = nullptr;
  FakeSource* source_ = nullptr;
  std::atomic<int64_t> available_{500};
  std::atomic<int> looks_{0};
  std::unique_ptr<StorePuller> puller_;
};

TEST_F(StorePullerTest, AFullDiskTakesUnusedImagesAwayAndSaysWhenThatIsNotEnough) {
  keep("r.example/a:1", 'a', 40);
  keep("r.example/b:1", 'c', 40);
  keep("r.example/c:1", 'e', 40);
  open();
  host_.in_use = {"r.example/a:1", "r.example/c@" + digest('e')};  // one by its tag, one by its id
  collect();
  ASSERT_TRUE(looks(3));
  EXPECT_EQ(kept().size(), 3u);
  available_ = 150;  // 85 %: 50 are to be freed, and 40 can be
  ASSERT_TRUE(eventually([&] {
    loop_.run_for(milliseconds(5));
    return kept() == std::vector<std::string>{"a:1", "c:1"};
  }));
  ASSERT_TRUE(looks(3));
  EXPECT_FALSE(store_->has_layer(digest('c')));
  EXPECT_FALSE(store_->has_rootfs(digest('c')));
  EXPECT_TRUE(store_->has_layer(digest('a')));
  EXPECT_GE(host_.changes, 1);
  EXPECT_FALSE(present("r.example/b:1"));
  EXPECT_EQ(host_.warnings.at(0), "FreeDiskSpaceFailed");
  EXPECT_EQ(host_.warnings.at(1), "FreeDiskSpaceFailed");
  EXPECT_EQ(host_.warnings.at(2), "ImageGCFailed");
  EXPECT_EQ(puller_->images_json().find("r.example/b"), std::string::npos);
}

TEST_F(StorePullerTest, WhatIsYoungOrBeingPulledOrNotYetKnownToBeUnusedStays) {
  keep("r.example/a:1", 'a', 40);
  open();
  host_.known = false;
  available_ = 100;
  collect(seconds(3600));
  source_->put("r.example/b:1", 'c', 'c', 10);
  puller_->begin(1, "r.example/b:1", loop_.now());
  ASSERT_TRUE(wait_for(1));
  EXPECT_EQ(looks_, 0);  // which pods there are is not known yet
  source_->held = true;
  puller_->begin(2, "r.example/a:1", loop_.now());
  host_.known = true;
  ASSERT_TRUE(looks(3));
  EXPECT_EQ(kept(), std::vector<std::string>{"a:1"});  // it is being pulled anew
  EXPECT_TRUE(present("r.example/b:1"));               // it came a moment ago
  source_->held = false;
  ASSERT_TRUE(wait_for(2));
}

TEST_F(StorePullerTest, WhileAnotherProcessUsesTheStoreNothingIsRemoved) {
  keep("r.example/a:1", 'a', 40);
  open();
  auto other = image::ContentStore::open(folder_.path() + "/store", image::ContentStore::Lock::kShared);
  available_ = 100;
  collect();
  ASSERT_TRUE(looks(4));
  EXPECT_EQ(kept(), std::vector<std::string>{"a:1"});
  EXPECT_TRUE(present("r.example/a:1"));
  other->reset();
  ASSERT_TRUE(eventually([&] {
    loop_.run_for(milliseconds(5));
    return kept().empty();
  }));
}

TEST_F(StorePullerTest, APullMakesTheImagePresentByTagAndByDigest) {
  open();
  source_->put("r.example/app:1", 'a', 'f', 1234);
  EXPECT_FALSE(present("r.example/app:1"));
  EXPECT_EQ(puller_->images_json(), "[]");
  EXPECT_EQ(puller_->begin(7, "r.example/app:1", loop_.now()), agent::kPullEndIsTold);
  EXPECT_TRUE(host_.ended.empty());
  ASSERT_TRUE(wait_for(7));
  const agent::PullResult result = puller_->end(7, "r.example/app:1", loop_.now());
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.size_bytes, 1234);
  EXPECT_EQ(host_.changes, 1);
  EXPECT_TRUE(present("r.example/app:1"));
  EXPECT_TRUE(present("r.example/app@" + digest('a')));
  EXPECT_TRUE(present("r.example/app:1@" + digest('f')));
  EXPECT_FALSE(present("r.example/app:2"));
  EXPECT_FALSE(present("r.example/app@" + digest('c')));
  EXPECT_FALSE(present("r.example/other@" + digest('a')));
  EXPECT_EQ(puller_->id_of("r.example/app:1"), "r.example/app@" + digest('f'));
  EXPECT_EQ(puller_->id_of("r.example/app:2"), "");
  EXPECT_EQ(puller_->images_json(),
            R"([{"names":["r.example/app@)" + digest('f') + R"(","r.example/app:1"],"sizeBytes":1234}])");
  EXPECT_EQ(puller_->end(7, "", loop_.now()).error, "context canceled");  // it was taken
}

TEST_F(StorePullerTest, WhatATagStoodForStaysByItsDigest) {
  open();
  source_->put("r.example/app:1", 'a', 'f', 10);
  puller_->begin(1, "r.example/app:1", loop_.now());
  ASSERT_TRUE(wait_for(1));
  source_->put("r.example/app:1", 'c', 'e', 20);
  puller_->begin(2, "r.example/app:1", loop_.now());
  ASSERT_TRUE(wait_for(2));
  EXPECT_EQ(puller_->id_of("r.example/app:1"), "r.example/app@" + digest('e'));
  EXPECT_TRUE(present("r.example/app@" + digest('f')));
  EXPECT_EQ(puller_->images_json(), R"([{"names":["r.example/app@)" + digest('e') +
                                        R"(","r.example/app:1"],"sizeBytes":20},{"names":["r.example/app@)" +
                                        digest('f') + R"("],"sizeBytes":10}])");
}

TEST_F(StorePullerTest, AFailureInTheRuntimesAndTheRegistrysWords) {
  open();
  puller_->begin(1, "r.example/app:none", loop_.now());
  ASSERT_TRUE(wait_for(1));
  EXPECT_EQ(puller_->end(1, "r.example/app:none", loop_.now()).error,
            "rpc error: code = NotFound desc = failed to pull and unpack image \"r.example/app:none\": manifest none: "
            "answered 404: MANIFEST_UNKNOWN: manifest unknown");
  EXPECT_EQ(host_.changes, 0);
  EXPECT_FALSE(present("r.example/app:none"));
}

TEST_F(StorePullerTest, TheRateOfTheNodeIsToldBare) {
  open({5, 1e-6, 1});
  source_->put("r.example/app:1", 'a', 'a', 1);
  for (PullTicket t = 1; t <= 2; ++t) puller_->begin(t, "r.example/app:1", loop_.now());
  ASSERT_TRUE(wait_for(1) && wait_for(2));
  const std::string a = puller_->end(1, "", loop_.now()).error, b = puller_->end(2, "", loop_.now()).error;
  EXPECT_EQ(a + b, "pull QPS exceeded");
}

TEST_F(StorePullerTest, APullThatHangsHoldsUpNobody) {
  open();
  source_->held = true;
  puller_->begin(1, "r.example/app:1", loop_.now());
  bool fired = false;
  loop_.run_after(milliseconds(1), [&fired] { fired = true; });
  ASSERT_TRUE(eventually([&] {
    loop_.run_for(milliseconds(5));
    return fired;
  }));
  EXPECT_TRUE(host_.ended.empty());
  puller_.reset();  // cancels it; nothing comes of it afterwards
  loop_.run_for(milliseconds(20));
  EXPECT_TRUE(host_.ended.empty());
}

TEST_F(StorePullerTest, SecretsGoWithOnePullAndUnreadableOnesAreLeftOut) {
  open();
  puller_->give_secrets(1, {{"default", "a", "1", R"({"auths":{"r.example":{"username":"u","password":"p"}}})"},
                            {"default", "b", "2", ""},
                            {"default", "c", "3", "no JSON"}});
  puller_->begin(1, "r.example/app:1", loop_.now());
  ASSERT_TRUE(wait_for(1));
  EXPECT_EQ(source_->users, 1u);
  puller_->begin(2, "r.example/app:1", loop_.now());
  ASSERT_TRUE(wait_for(2));
  EXPECT_EQ(source_->users, 0u);
}

TEST_F(StorePullerTest, WhatIsInTheStoreIsThereAlsoWhenItComesLater) {
  open();
  const auto first = source_->put("r.example/app:1", 'a', 'a', 10);
  ASSERT_TRUE(store_->put_image(first).ok());
  EXPECT_TRUE(present("r.example/app:1"));  // somebody else pulled it meanwhile
  image::ImageRecord second = first;        // the same image by another name
  second.reference = "r.example/app:2";
  ASSERT_TRUE(store_->put_image(second).ok());
  puller_.reset();
  open();
  EXPECT_EQ(puller_->images_json(), R"([{"names":["r.example/app@)" + digest('a') +
                                        R"(","r.example/app:1","r.example/app:2"],"sizeBytes":10}])");
}

// A whole node: pods in the API, a registry that wants a password, the pull secret of the pod.
class StoreNodeTest : public ::testing::Test {
 protected:
  ~StoreNodeTest() override {
    node_.reset();
    EXPECT_TRUE(image::remove_tree(folder_.path()).ok());
  }
  void start() {
    ImageStoreOptions store;
    store.folder = folder_.path() + "/store";
    store.plain_http = {server_.host()};
    store.pull.platform = {"linux", "amd64", ""};
    SingleNodeOptions o;
    o.client = api_.config();
    o.identity.name = "alone";
    o.node.capacity = {{"cpu", "4"}, {"memory", "8Gi"}, {"pods", "110"}};
    o.lease_duration = seconds(8);
    o.image_store = std::make_shared<const ImageStoreOptions>(std::move(store));
    auto node = SingleNode::start(o);
    ASSERT_TRUE(node.ok()) << node.error().message();
    node_ = std::move(*node);
    ASSERT_TRUE(eventually([&] { return node_->snapshot().ready == 1; }));
  }
  void put_pod(const std::string& name, const std::string& image, const std::string& more = "",
               const std::string& policy = "IfNotPresent") {
    api_.put("/api/v1/namespaces/default/pods/" + name,
             *kube::parse_json(R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
                               R"(","namespace":"default"},"spec":{"nodeName":"alone",)" + more +
                               R"("containers":[{"name":"c","imagePullPolicy":")" + policy + R"(","image":")" + image +
                               R"("}]},"status":{"phase":"Pending"}})"));
  }
  std::string container(const std::string& pod, const std::string& what) {
    const auto object = api_.get("/api/v1/namespaces/default/pods/" + pod);
    const kube::JsonArray* list = object ? kube::get_array(*object, "status.containerStatuses") : nullptr;
    return list == nullptr || list->empty() ? "" : std::string(kube::get_string(list->front(), what));
  }
  bool running(const std::string& pod) {
    const auto object = api_.get("/api/v1/namespaces/default/pods/" + pod);
    return object && kube::get_string(*object, "status.phase") == "Running";
  }
  tests::RoughAnswer answer(const tests::RoughRequest& request) {
    if (request.header("authorization") != "Basic " + base64_encode("me:right"))
      return {.status = 401, .headers = {{"WWW-Authenticate", "Basic realm=\"r\""}}};
    tests::RoughAnswer out = shelf_.answer(request);
    if (stall && request.target.find("/manifests/slow") != std::string::npos) out.cut_after = 0, out.stall = true;
    return out;
  }

  tests::TemporaryFolder folder_;
  tests::Shelf shelf_;
  tests::BuiltImage built_ = tests::put_image(&shelf_, "v1", {tests::gzip_layer({{"f", "content"}})});
  std::atomic<bool> stall{false};
  tests::RoughRegistry server_{[this](const tests::RoughRequest& r) { return answer(r); }};
  FakeApi api_;
  std::unique_ptr<SingleNode> node_;
};

TEST_F(StoreNodeTest, APodWithThePullSecretRunsAndOneWithoutSaysWhatTheRegistrySaid) {
  const std::string image = server_.host() + "/team/app:v1";
  const std::string config = R"({"auths":{")" + server_.host() + R"(":{"username":"me","password":"right"}}})";
  api_.put("/api/v1/namespaces/default/secrets/pull",
           *kube::parse_json(R"({"kind":"Secret","apiVersion":"v1","metadata":{"name":"pull","namespace":"default"},)"
                             R"("type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":")" +
                             base64_encode(config) + R"("}})"));
  start();
  put_pod("nobody", image);
  ASSERT_TRUE(eventually([&] { return container("nobody", "state.waiting.reason") == "ErrImagePull"; }));
  EXPECT_THAT(container("nobody", "state.waiting.message"), HasSubstr("answered 401"));
  put_pod("me", image, R"("imagePullSecrets":[{"name":"pull"}],)");
  ASSERT_TRUE(eventually([&] { return running("me"); })) << container("me", "state.waiting.message");
  EXPECT_EQ(container("me", "imageID"), server_.host() + "/team/app@" + built_.digest);
  // Now it is there for pods with that secret that must not pull; for others it is not, and another image is not.
  put_pod("never", image, R"("imagePullSecrets":[{"name":"pull"}],)", "Never");
  put_pod("other", image, "", "Never");
  put_pod("absent", server_.host() + "/team/app:v2", "", "Never");
  EXPECT_TRUE(eventually([&] { return running("never"); }));
  for (const char* pod : {"other", "absent"})
    EXPECT_TRUE(eventually([&] { return container(pod, "state.waiting.reason") == "ErrImageNeverPull"; })) << pod;
  put_pod("asks", image);
  EXPECT_TRUE(eventually([&] { return container("asks", "state.waiting.reason") == "ErrImagePull"; }));
  EXPECT_THAT(container("asks", "state.waiting.message"), HasSubstr("answered 401"));
  for (const auto& [path, object] : api_.objects())
    EXPECT_EQ(kube::to_json(object).find("me:right"), std::string::npos);
}

TEST_F(StoreNodeTest, APullThatHangsDelaysNoHeartbeatAndEndsWithTheAgent) {
  stall = true;
  const std::string config = R"({"auths":{")" + server_.host() + R"(":{"username":"me","password":"right"}}})";
  api_.put("/api/v1/namespaces/default/secrets/pull",
           *kube::parse_json(R"({"kind":"Secret","apiVersion":"v1","metadata":{"name":"pull","namespace":"default"},)"
                             R"("type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":")" +
                             base64_encode(config) + R"("}})"));
  shelf_.manifests["slow"] = shelf_.manifests["v1"];
  start();
  put_pod("slow", server_.host() + "/team/app:slow", R"("imagePullSecrets":[{"name":"pull"}],)");
  ASSERT_TRUE(eventually([&] { return server_.count("/manifests/slow") >= 2; }));  // refused first, then logged in
  const uint64_t before = node_->snapshot().renewals;
  ASSERT_TRUE(eventually([&] { return node_->snapshot().renewals >= before + 2; }, seconds(60)));
  EXPECT_FALSE(running("slow"));
  const TimePoint start = SystemClock::instance().now();
  node_.reset();
  EXPECT_LT(SystemClock::instance().now() - start, seconds(45));  // a transfer without a byte is cut after 60 s
}

}  // namespace
}  // namespace ghostfleet::emulator
