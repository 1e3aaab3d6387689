// The reflector and the client against a server that answers by script.
#include "kube/client/reflector.h"

#include <gtest/gtest.h>

#include <deque>

#include "kube/client/json_skim.h"
#include "kube/client/watch_decoder.h"
#include "kube/http/http_harness.h"

namespace ghostfleet::kube {
namespace {

using http::Exchange;
using http::Harness;
using http::HarnessOptions;
using http::HeaderList;
using ExchangePtr = std::shared_ptr<Exchange>;

std::string pod(const std::string& name, const std::string& version) {
  return R"({"kind":"Pod","metadata":{"name":")" + name + R"(","namespace":"ns","uid":"u-)" + name +
         R"(","resourceVersion":")" + version + R"("}})";
}
std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
std::string bookmark(const std::string& version, bool end = false) {
  const std::string annotations = end ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "";
  return event("BOOKMARK", R"({"kind":"Pod","metadata":{"resourceVersion":")" + version + "\"" + annotations + "}}");
}
std::string list(const std::string& version, const std::vector<std::string>& items, const std::string& next = "") {
  std::string out =
      R"({"kind":"PodList","metadata":{"resourceVersion":")" + version + R"(","continue":")" + next + R"("},"items":[)";
  for (size_t i = 0; i < items.size(); ++i) out += (i > 0 ? "," : "") + items[i];
  return out + "]}";
}

struct Log : ReflectorHandler {
  std::vector<std::string> lines;
  void note(const char* what, const ObjectView& o) {
    lines.push_back(std::string(what) + " " + std::string(o.name) + " " + std::string(o.resource_version));
  }
  void on_added(const ObjectView& o) override { note("added", o); }
  void on_modified(const ObjectView& o) override { note("modified", o); }
  void on_deleted(const ObjectView& o) override { note("deleted", o); }
  void on_synced() override { lines.emplace_back("synced"); }
  void on_list_begin() override { lines.emplace_back("begin"); }
  void on_error(const Status& status, int http) override {
    lines.push_back("error " + std::to_string(http));
    errors.push_back(status.message());
  }
  std::vector<std::string> errors;
};

using Lines = std::vector<std::string>;

class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest() : h([this](ExchangePtr e) { arrivals.push_back(std::move(e)); }, plain()) {
    client = KubeClient::create(h.loop, h.client_options(), "", {});
    options.path = "/api/v1/pods";
    options.backoff_base = std::chrono::milliseconds(20);
  }
  ~ReflectorTest() override {
    reflector.reset();
    client.reset();
  }
  static HarnessOptions plain() {
    HarnessOptions o;
    o.tls = false;
    return o;
  }
  void start() {
    reflector = Reflector::create(*client, options, &log);
    reflector->start();
  }
  // The next request; its query without the random time-out.
  ExchangePtr next() {
    EXPECT_TRUE(h.run_until([&] { return !arrivals.empty(); }));
    if (arrivals.empty()) return nullptr;
    ExchangePtr e = std::move(arrivals.front());
    arrivals.pop_front();
    return e;
  }
  std::string query(const ExchangePtr& e) {
    std::string out;
    for (const auto& [key, value] : http::parse_query(e->request().query())) {
      if (key == "timeout" || key == "timeoutSeconds") continue;
      out += (out.empty() ? "" : "&") + key + "=" + value;
    }
    return out;
  }
  void stream(const ExchangePtr& e, const std::string& text) {
    if (!started(e)) e->start(200, {{"content-type", "application/json"}});
    started_.push_back(e);  // kept: another exchange must not get its address
    e->write(share(text));
  }
  bool started(const ExchangePtr& e) { return std::find(started_.begin(), started_.end(), e) != started_.end(); }
  bool wait_for(const Lines& expected) {
    const bool ok = h.run_until([&] { return log.lines.size() >= expected.size(); }, std::chrono::seconds(5));
    EXPECT_EQ(log.lines, expected);
    return ok && log.lines == expected;
  }

  std::deque<ExchangePtr> arrivals;
  std::vector<ExchangePtr> started_;
  Harness h;
  std::unique_ptr<KubeClient> client;
  ReflectorOptions options;
  Log log;
  std::unique_ptr<Reflector> reflector;
};

TEST_F(ReflectorTest, AStreamingListGoesOnAsAWatch) {
  options.field_selector = "spec.nodeName=n1";
  start();
  const ExchangePtr e = next();
  EXPECT_EQ(query(e),
            "allowWatchBookmarks=true&fieldSelector=spec.nodeName=n1&resourceVersionMatch=NotOlderThan&"
            "sendInitialEvents=true&watch=true");
  stream(e, event("ADDED", pod("a", "3")) + event("ADDED", pod("b", "2")));
  ASSERT_TRUE(wait_for({"begin", "added a 3", "added b 2"}));
  EXPECT_FALSE(reflector->synced());
  stream(e, bookmark("5", true) + event("MODIFIED", pod("a", "6")) + event("DELETED", pod("b", "7")));
  ASSERT_TRUE(wait_for({"begin", "added a 3", "added b 2", "synced", "modified a 6", "deleted b 7"}));
  EXPECT_EQ(reflector->resource_version(), "7");
  stream(e, bookmark("9"));
  EXPECT_TRUE(h.run_until([&] { return reflector->resource_version() == "9"; }));
  e->finish();
  EXPECT_EQ(query(next()), "allowWatchBookmarks=true&fieldSelector=spec.nodeName=n1&resourceVersion=9&watch=true");
}

TEST_F(ReflectorTest, PagesWhenTheServerRefusesToStream) {
  options.page_size = 2;
  start();
  next()->respond(422, {}, share(R"({"kind":"Status","message":"sendInitialEvents is forbidden"})"));
  ExchangePtr e = next();
  EXPECT_EQ(query(e), "limit=2&resourceVersion=0");
  e->respond(200, {}, share(list("10", {pod("a", "1"), pod("b", "2")}, "tok/en")));
  e = next();
  EXPECT_EQ(query(e), "continue=tok/en&limit=2");
  e->respond(200, {}, share(list("10", {pod("c", "3")})));
  e = next();
  EXPECT_EQ(query(e), "allowWatchBookmarks=true&resourceVersion=10&watch=true");
  EXPECT_TRUE(wait_for({"begin", "added a 1", "added b 2", "added c 3", "synced"}));
}

TEST_F(ReflectorTest, AWatchCutInsideAnObjectDeliversNothingOfIt) {
  options.streaming_list = false;
  start();
  next()->respond(200, {}, share(list("10", {})));
  ExchangePtr e = next();
  const std::string cut = event("ADDED", pod("b", "12"));
  stream(e, event("ADDED", pod("a", "11")) + cut.substr(0, cut.size() / 2));
  ASSERT_TRUE(wait_for({"begin", "synced", "added a 11"}));
  e->abort();
  e = next();
  EXPECT_EQ(query(e), "allowWatchBookmarks=true&resourceVersion=11&watch=true");
  stream(e, cut.substr(0, cut.size() - 5));
  e->finish();  // even a clean end does not make half an object whole
  e = next();
  EXPECT_EQ(query(e), "allowWatchBookmarks=true&resourceVersion=11&watch=true");
  stream(e, cut);
  EXPECT_TRUE(wait_for({"begin", "synced", "added a 11", "error 0", "error 0", "added b 12"}));
}

TEST_F(ReflectorTest, PiecesAndOddEventsChangeNothing) {
  options.streaming_list = false;
  start();
  next()->respond(200, {}, share(list("10", {})));
  const ExchangePtr e = next();
  const std::string text =
      event("ADDED", R"({"kind":"Pod","metadata":{"name":"a","labels":{"x":")"
                     "\xc3\xa9\xf0\x9f\x98\x80"
                     R"("},"resourceVersion":"11"}})") +
      event("SOMETHING", pod("b", "12")) +
      event("BOOKMARK", R"({"kind":"Pod","metadata":{"resourceVersion":"13"},"spec":{"containers":null}})") +
      event("MODIFIED", pod("a", "14"));
  for (const char byte : text) stream(e, std::string(1, byte));
  ASSERT_TRUE(wait_for({"begin", "synced", "added a 11", "modified a 14"}));
  const std::string large =
      event("ADDED", R"({"kind":"Pod","metadata":{"name":"large","resourceVersion":"15","annotations":{"a":")" +
                         std::string(3 << 20, 'x') + R"("}}})");
  for (size_t at = 0; at < large.size(); at += 100000) stream(e, large.substr(at, 100000));
  stream(e, event("DELETED", pod("a", "16")) + event("SOMETHING", pod("c", "17")));
  ASSERT_TRUE(wait_for({"begin", "synced", "added a 11", "modified a 14", "added large 15", "deleted a 16"}));
  EXPECT_TRUE(h.run_until([&] { return reflector->resource_version() == "17"; }));
}

TEST_F(ReflectorTest, AGoneVersionListsAgainAndFindsWhatWasMissed) {
  options.streaming_list = false;
  options.keep = ReflectorOptions::Keep::kNamesAndVersions;
  start();
  next()->respond(200, {}, share(list("10", {pod("a", "1"), pod("b", "2"), pod("c", "3")})));
  ExchangePtr e = next();
  stream(e, event("ERROR", R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})"));
  e = next();
  EXPECT_EQ(query(e), "limit=500&resourceVersion=10");
  e->respond(410, {}, share(R"({"kind":"Status","code":410,"message":"gone too"})"));
  e = next();
  EXPECT_EQ(query(e), "limit=500");
  e->respond(200, {}, share(list("20", {pod("a", "1"), pod("c", "15"), pod("d", "16")})));
  e = next();
  EXPECT_EQ(query(e), "allowWatchBookmarks=true&resourceVersion=20&watch=true");
  EXPECT_TRUE(wait_for({"begin", "added a 1", "added b 2", "added c 3", "synced", "error 410", "begin", "error 410",
                        "begin", "modified c 15", "added d 16", "deleted b ", "synced"}));
}

TEST_F(ReflectorTest, ErrorsAreRetriedAfterTheTimeTold) {
  start();
  next()->respond(403, {}, share(R"({"message":"pods is forbidden"})"));
  next()->respond(500, {}, share("oops"));
  const TimePoint before = h.loop.now();
  next()->respond(429, {{"retry-after", "1"}}, share("{}"));
  const ExchangePtr e = next();
  EXPECT_GE(h.loop.now() - before, std::chrono::milliseconds(950));
  stream(e, bookmark("1", true));
  ASSERT_TRUE(wait_for({"error 403", "error 500", "error 429", "begin", "synced"}));
  EXPECT_EQ(log.errors[0], "watching /api/v1/pods: pods is forbidden");
  EXPECT_EQ(log.errors[1], "watching /api/v1/pods: the server answered 500");
}

TEST_F(ReflectorTest, StoppedFromACallbackItSaysNothingMore) {
  struct Stopper : Log {
    Reflector* reflector = nullptr;
    void on_added(const ObjectView& o) override {
      Log::on_added(o);
      reflector->stop();
    }
  } stopper;
  reflector = Reflector::create(*client, options, &stopper);
  stopper.reflector = reflector.get();
  reflector->start();
  const ExchangePtr e = next();
  stream(e, event("ADDED", pod("a", "1")) + event("ADDED", pod("b", "2")));
  EXPECT_TRUE(h.run_until([&] { return e->closed(); }));
  EXPECT_EQ(stopper.lines, (Lines{"begin", "added a 1"}));
}

TEST_F(ReflectorTest, ALineThatNeverEndsEndsTheWatch) {
  options.max_object_bytes = 1000;
  start();
  ExchangePtr e = next();
  stream(e, bookmark("1", true) + R"({"type":"ADDED","object":")" + std::string(2000, 'x'));
  EXPECT_TRUE(h.run_until([&] { return e->closed(); }));
  EXPECT_EQ(query(next()), "allowWatchBookmarks=true&resourceVersion=1&watch=true");
}

// ---- the client

class ClientTest : public ReflectorTest {};

TEST_F(ClientTest, RepeatsWhatIsSafe) {
  std::vector<ApiCallResult> results;
  const auto keep = [&](ApiCallResult r) { results.push_back(std::move(r)); };
  ApiCall get{.target = "/get"};
  client->call(get, keep);
  next()->abort();  // a GET that was cut
  ExchangePtr e = next();
  e->respond(503, {{"retry-after", "0"}}, share("{}"));
  next()->respond(200, {}, share("fine"));
  ASSERT_TRUE(h.run_until([&] { return results.size() == 1; }));
  EXPECT_EQ(results[0].body, "fine");
  EXPECT_EQ(results[0].tries, 3);

  ApiCall post{.method = "POST", .target = "/post", .body = "{}"};
  client->call(post, keep);
  e = next();
  EXPECT_EQ(e->request().headers.get("content-type"), "application/json");
  e->abort();  // it may have been done
  ASSERT_TRUE(h.run_until([&] { return results.size() == 2; }));
  EXPECT_EQ(results[1].transport_error.code(), Code::kUnavailable);
  EXPECT_EQ(results[1].tries, 1);

  client->call(post, keep);
  next()->respond(500, {}, share(R"({"kind":"Status","message":"no luck","reason":"InternalError"})"));
  ASSERT_TRUE(h.run_until([&] { return results.size() == 3; }));
  EXPECT_EQ(results[2].to_status("posting").message(), "posting: no luck");
}

TEST_F(ClientTest, AsksForFreshCredentialsOnceAfter401) {
  int asked = 0, invalidated = 0;
  ClientAuth auth;
  auth.bearer_token = [&] { return Result<std::string>("token" + std::to_string(++asked)); };
  auth.invalidate = [&] { ++invalidated; };
  client = KubeClient::create(h.loop, h.client_options(), "/prefix", auth);
  std::vector<int> statuses;
  const auto keep = [&](const ApiCallResult& r) { statuses.push_back(r.status); };
  client->call({.target = "/a"}, keep);
  ExchangePtr e = next();
  EXPECT_EQ(e->request().target, "/prefix/a");
  EXPECT_EQ(e->request().headers.get("authorization"), "Bearer token1");
  e->respond(401, {}, share("{}"));
  e = next();
  EXPECT_EQ(e->request().headers.get("authorization"), "Bearer token2");
  e->respond(401, {}, share("{}"));
  ASSERT_TRUE(h.run_until([&] { return statuses.size() == 1; }));
  EXPECT_EQ(statuses[0], 401);
  EXPECT_EQ(invalidated, 1);
}

TEST_F(ClientTest, CancelledCallsSayNothing) {
  bool called = false;
  const ApiCallId id = client->call({.target = "/a"}, [&](const ApiCallResult&) { called = true; });
  const ExchangePtr e = next();
  client->cancel(id);
  EXPECT_TRUE(h.run_until([&] { return e->closed(); }));
  EXPECT_FALSE(called);
}

TEST(ClientConfig, ServerUrls) {
  const auto good = [](std::string_view url) {
    const auto e = parse_server_url(url).value();
    return e.host + " " + std::to_string(e.port) + (e.use_tls ? " tls " : " plain ") + e.path_prefix;
  };
  EXPECT_EQ(good("https://10.0.0.1:6443"), "10.0.0.1 6443 tls ");
  EXPECT_EQ(good("https://a.example/k8s/c1/"), "a.example 443 tls /k8s/c1");
  EXPECT_EQ(good("http://[::1]:80"), "::1 80 plain ");
  EXPECT_EQ(good("localhost:8080"), "localhost 8080 plain ");
  for (const char* bad : {"ftp://x", "https://", "https://h:0", "https://h:99999", "https://h:x", "https://u@h",
                          "https://[::1", "https://h/p?q"}) {
    EXPECT_FALSE(parse_server_url(bad).ok()) << bad;
  }
}

TEST(RetryAfter, SecondsAndDates) {
  const WallTime now{1767607200000000000};  // 2026-01-05T10:00:00Z
  EXPECT_EQ(parse_retry_after("2", now), std::chrono::seconds(2));
  EXPECT_EQ(parse_retry_after("Mon, 05 Jan 2026 10:00:07 GMT", now), std::chrono::seconds(7));
  EXPECT_EQ(parse_retry_after("Mon, 05 Jan 2026 09:00:00 GMT", now), Duration(0));
  EXPECT_LT(parse_retry_after("", now), Duration(0));
  EXPECT_LT(parse_retry_after("soon", now), Duration(0));
  EXPECT_LT(parse_retry_after("-1", now), Duration(0));
}

TEST(WatchDecoder, LinesAcrossPieces) {
  const std::string text = "{\"a\":1}\r\n\n{\"b\":2}\n{\"c\"";
  for (size_t size = 1; size <= text.size(); ++size) {
    WatchDecoder decoder(100);
    Lines lines;
    for (size_t at = 0; at < text.size(); at += size) {
      ASSERT_TRUE(decoder
                      .feed(std::string_view(text).substr(at, size),
                            [&](std::string_view line) {
                              lines.emplace_back(line);
                              return true;
                            })
                      .ok());
    }
    EXPECT_EQ(lines, (Lines{"{\"a\":1}", "{\"b\":2}"})) << size;
    EXPECT_TRUE(decoder.partial());
  }
}

TEST(JsonSkim, FindsAndUnescapes) {
  const std::string text = R"( {"x" : [1, {"y":"}"}], "s":"a\"b\\\u00e9\ud83d\ude00\n", "n":-1.5 , "o":{"k":"v"}} )";
  EXPECT_EQ(json_member(text, "x"), R"([1, {"y":"}"}])");
  EXPECT_EQ(json_string_member(text, "s"), "a\"b\\\xc3\xa9\xf0\x9f\x98\x80\n");
  EXPECT_EQ(json_member(text, "n"), "-1.5");
  EXPECT_EQ(json_string_member(json_member(text, "o"), "k"), "v");
  EXPECT_EQ(json_member(text, "missing"), "");
  for (const char* broken : {"", "{", "{\"a\"", "{\"a\":", "{\"a\":[", "{\"a\":\"x", "[", "{\"a\" 1}"}) {
    EXPECT_EQ(json_member(broken, "a"), "") << broken;
  }
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_EQ(json_member(deep, "a").size(), 200000u);
}

}  // namespace
}  // namespace ghostfleet::kube
