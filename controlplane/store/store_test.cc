#include "controlplane/store/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/random.h"

namespace ghostfleet::controlplane {
namespace {

EncodedObject encoded(const std::string& value) {
  EncodedObject object;
  object.json = R"({"resourceVersion":"0000000000000000","value":")" + value + "\"}";
  object.revision_offset = 20;
  return object;
}

std::string value_of(const Object& object) {
  const size_t at = object.json.find("\"value\":\"") + 9;
  return object.json.substr(at, object.json.find('"', at) - at);
}

KindConfig config(std::string name) {
  KindConfig c;
  c.name = std::move(name);
  c.indexed_fields = {"node"};
  c.watch_index_field = 0;
  // The part of the value before '@' is the node.
  c.extract = [](std::string_view json, Object* object) {
    const size_t at = json.find("\"value\":\"") + 9;
    const size_t end = json.find('@', at);
    object->fields.emplace_back(end == std::string_view::npos ? "" : json.substr(at, end - at));
  };
  return c;
}

class StoreTest : public testing::Test {
 protected:
  ObjectRef create(const std::string& key, const std::string& value = "v") {
    Result<ObjectRef> put = store->put(kind, key, nullptr, encoded(value));
    EXPECT_TRUE(put.ok());
    return *put;
  }
  ObjectRef update(const std::string& key, const std::string& value) {
    Result<ObjectRef> put = store->put(kind, key, store->get(kind, key), encoded(value));
    EXPECT_TRUE(put.ok());
    return *put;
  }
  std::vector<std::string> keys(ListOptions options, ListResult* result = nullptr) {
    Result<ListResult> listed = store->list(kind, options);
    EXPECT_TRUE(listed.ok());
    std::vector<std::string> out;
    for (const ObjectRef& object : listed->items) out.push_back(object->key);
    if (result) *result = *listed;
    return out;
  }
  std::vector<std::string> pull(Watch& watch) {
    std::vector<Event> events;
    EXPECT_TRUE(watch.next(1000, &events));
    std::vector<std::string> out;
    for (const Event& e : events) {
      const char* type = e.type == EventType::kAdded ? "A" : e.type == EventType::kModified ? "M" : "D";
      out.push_back(std::string(type) + " " + e.object->key + " " + value_of(*e.object));
    }
    return out;
  }
  std::unique_ptr<Watch> watch_from(Revision after, WatchOptions options = {}) {
    options.after = after;
    auto watch = store->watch(kind, std::move(options));
    EXPECT_TRUE(watch.ok());
    return std::move(*watch);
  }

  ManualClock clock;
  StoreOptions options{.history = std::chrono::seconds(75), .history_events = 1000, .max_object_bytes = 1000};
  std::unique_ptr<Store> store = Store::create(options, clock);
  KindId kind = store->add_kind(config("things"));
};

using Strings = std::vector<std::string>;

TEST_F(StoreTest, RevisionsAreSixteenDigitsAndRise) {
  const ObjectRef a = create("ns/a"), b = create("ns/b");
  EXPECT_EQ(format_revision(a->revision).size(), 16u);
  EXPECT_EQ(b->revision, a->revision + 1);
  EXPECT_EQ(store->revision(), b->revision);
  EXPECT_NE(a->json.find(format_revision(a->revision)), std::string::npos);
  EXPECT_EQ(store->add_kind(config("things")), kind);
}

TEST_F(StoreTest, WritesAreBasedOnAVersion) {
  const ObjectRef a = create("ns/a");
  EXPECT_EQ(store->put(kind, "ns/a", nullptr, encoded("x")).error().code(), Code::kAlreadyExists);
  update("ns/a", "2");
  EXPECT_EQ(store->put(kind, "ns/a", a, encoded("3")).error().code(), Code::kConflict);
  EXPECT_EQ(store->remove(kind, "ns/a", a).error().code(), Code::kConflict);
  EXPECT_EQ(store->put(kind, "ns/none", a, encoded("3")).error().code(), Code::kNotFound);
  EXPECT_EQ(store->remove(kind, "ns/none", nullptr).error().code(), Code::kNotFound);
  EXPECT_EQ(value_of(*store->get(kind, "ns/a")), "2");
  EXPECT_EQ(store->get(kind, "ns/a")->create_revision, a->revision);
}

TEST_F(StoreTest, SizeIsLimited) {
  const Revision before = store->revision();
  EncodedObject fits = encoded("");
  fits.json += std::string(options.max_object_bytes - fits.json.size(), ' ');
  EXPECT_TRUE(store->put(kind, "fits", nullptr, fits).ok());
  EncodedObject large = fits;
  large.json += ' ';
  EXPECT_EQ(store->put(kind, "large", nullptr, large).error().code(), Code::kResourceExhausted);
  EXPECT_EQ(store->revision(), before + 1);
}

TEST_F(StoreTest, PagesInKeyOrder) {
  for (const char* key : {"b/2", "a/1", "b/1", "a-b/1", "b/3"}) create(key);
  ListResult page;
  EXPECT_EQ(keys({}), (Strings{"a-b/1", "a/1", "b/1", "b/2", "b/3"}));
  EXPECT_EQ(keys({.prefix = "b/", .limit = 2}, &page), (Strings{"b/1", "b/2"}));
  EXPECT_TRUE(page.more);
  EXPECT_EQ(page.remaining, 1u);
  EXPECT_EQ(keys({.prefix = "b/", .start_after = "b/2", .limit = 2}, &page), (Strings{"b/3"}));
  EXPECT_FALSE(page.more);
  EXPECT_EQ(keys({.limit = 3}, &page), (Strings{"a-b/1", "a/1", "b/1"}));
  EXPECT_EQ(page.remaining, 2u);
  EXPECT_EQ(store->count(kind, "b/"), 3u);
  EXPECT_EQ(store->count(kind, ""), 5u);
}

TEST_F(StoreTest, ExactPagesDoNotSeeLaterWrites) {
  for (const char* key : {"a", "b", "c", "d"}) create(key, "old");
  ListResult first;
  keys({.limit = 1}, &first);
  ASSERT_TRUE(store->remove(kind, "b", nullptr).ok());
  update("c", "new");
  create("bb", "new");
  ListResult rest;
  EXPECT_EQ(keys({.start_after = "a", .limit = 2, .revision = first.revision}, &rest), (Strings{"b", "c"}));
  EXPECT_EQ(value_of(*rest.items[1]), "old");
  EXPECT_TRUE(rest.more);
  EXPECT_EQ(rest.remaining, 1u);
  EXPECT_EQ(rest.revision, first.revision);
  EXPECT_EQ(keys({.start_after = "c", .revision = first.revision}), (Strings{"d"}));
  EXPECT_EQ(keys({}), (Strings{"a", "bb", "c", "d"}));
}

TEST_F(StoreTest, OldRevisionsExpire) {
  const ObjectRef a = create("a");
  clock.advance(std::chrono::seconds(60));
  update("a", "2");
  EXPECT_TRUE(store->list(kind, {.revision = a->revision}).ok());
  clock.advance(std::chrono::seconds(60));
  update("a", "3");
  EXPECT_EQ(store->compacted(kind), a->revision);
  EXPECT_TRUE(store->list(kind, {.revision = a->revision}).ok());
  EXPECT_EQ(store->list(kind, {.revision = a->revision - 1}).error().code(), Code::kExpired);
  WatchOptions from;
  from.after = a->revision - 1;
  EXPECT_EQ(store->watch(kind, from).error().code(), Code::kExpired);
  EXPECT_EQ(pull(*watch_from(a->revision)), (Strings{"M a 2", "M a 3"}));
}

TEST_F(StoreTest, HistoryIsBoundedByCount) {
  create("a");
  for (size_t i = 0; i < options.history_events + 5; i++) update("a", std::to_string(i));
  EXPECT_EQ(store->compacted(kind), store->revision() - options.history_events);
}

TEST_F(StoreTest, HistoryIsBoundedByBytes) {
  StoreOptions small = options;
  small.history_bytes = 100 * 1000;
  auto bounded = Store::create(small, clock);
  const KindId id = bounded->add_kind({.name = "things"});
  ObjectRef last;
  for (int i = 0; i < 500; i++) {
    auto stored = bounded->put(id, "a", last, {std::string(600, ' '), 0});
    ASSERT_TRUE(stored.ok());
    last = *stored;
  }
  const Revision kept = bounded->revision() - bounded->compacted(id);
  EXPECT_LT(kept, 170u);  // versions of 600 bytes
  EXPECT_GT(kept, 50u);
}

TEST_F(StoreTest, WatchFromARevision) {
  const ObjectRef a = create("a");
  create("b");
  auto watch = watch_from(a->revision);
  ASSERT_TRUE(store->remove(kind, "b", nullptr).ok());
  EXPECT_EQ(pull(*watch), (Strings{"A b v", "D b v"}));
  EXPECT_TRUE(pull(*watch).empty());
  EXPECT_EQ(watch->progress(), store->revision());
}

TEST_F(StoreTest, DeletionCarriesItsRevision) {
  create("a", "last");
  auto watch = watch_from(store->revision());
  const Revision before = store->revision();
  ASSERT_TRUE(store->remove(kind, "a", nullptr).ok());
  std::vector<Event> events;
  ASSERT_TRUE(watch->next(10, &events));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].object->revision, before + 1);
  EXPECT_NE(events[0].object->json.find(format_revision(before + 1)), std::string::npos);
  EXPECT_EQ(value_of(*events[0].object), "last");
  EXPECT_NE(events[0].previous->json.find(format_revision(before)), std::string::npos);
}

TEST_F(StoreTest, WatchersSeeWhatConcernsThem) {
  auto all = watch_from(store->revision());
  auto one = watch_from(store->revision(), {.key = "b/1"});
  auto space = watch_from(store->revision(), {.prefix = "b/"});
  auto node = watch_from(store->revision(), {.index_value = "n1"});
  auto node_in_space = watch_from(store->revision(), {.prefix = "a/", .index_value = "n1"});
  create("a/1", "n1@x");
  create("b/1", "n2@x");
  update("b/1", "n1@y");
  update("b/1", "n3@z");
  EXPECT_EQ(pull(*all).size(), 4u);
  EXPECT_EQ(pull(*one), (Strings{"A b/1 n2@x", "M b/1 n1@y", "M b/1 n3@z"}));
  EXPECT_EQ(pull(*space).size(), 3u);
  EXPECT_EQ(pull(*node), (Strings{"A a/1 n1@x", "M b/1 n1@y", "M b/1 n3@z"}));
  EXPECT_EQ(pull(*node_in_space), (Strings{"A a/1 n1@x"}));
}

TEST_F(StoreTest, ListsByIndexAndKey) {
  create("a/1", "n1@x");
  create("b/1", "n1@x");
  create("b/2", "n2@x");
  EXPECT_EQ(keys({.index_value = "n1"}), (Strings{"a/1", "b/1"}));
  EXPECT_EQ(keys({.prefix = "b/", .index_value = "n1"}), (Strings{"b/1"}));
  update("a/1", "n2@x");
  EXPECT_EQ(keys({.index_value = "n2"}), (Strings{"a/1", "b/2"}));
  ASSERT_TRUE(store->remove(kind, "a/1", nullptr).ok());
  EXPECT_EQ(keys({.index_value = "n2"}), (Strings{"b/2"}));
  EXPECT_EQ(keys({.key = "b/2"}), (Strings{"b/2"}));
  EXPECT_EQ(keys({.key = "b/3"}), (Strings{}));
}

TEST_F(StoreTest, NudgesOnceUntilPulled) {
  int nudges = 0;
  WatchOptions o;
  o.nudge = [&] { nudges++; };
  auto watch = watch_from(store->revision(), o);
  create("a");
  create("b");
  EXPECT_EQ(nudges, 1);
  pull(*watch);
  create("c");
  EXPECT_EQ(nudges, 2);
  watch.reset();
  create("d");
  EXPECT_EQ(nudges, 2);
}

TEST_F(StoreTest, SlowWatcherIsCut) {
  WatchOptions o;
  o.max_backlog = 3;
  auto watch = watch_from(store->revision(), o);
  for (int i = 0; i < 3; i++) create(std::to_string(i));
  std::vector<Event> events;
  EXPECT_TRUE(watch->next(1, &events));
  create("3");
  create("4");
  EXPECT_FALSE(watch->next(10, &events));
}

TEST_F(StoreTest, ListAndWatchHasNoGap) {
  create("a");
  ListResult initial;
  auto watch = store->list_and_watch(kind, {}, {}, &initial);
  ASSERT_TRUE(watch.ok());
  create("b");
  EXPECT_EQ(initial.items.size(), 1u);
  EXPECT_EQ(pull(**watch), (Strings{"A b v"}));
}

TEST_F(StoreTest, KindsAreSeparate) {
  const KindId other = store->add_kind(config("others"));
  auto watch = watch_from(store->revision());
  ASSERT_TRUE(store->put(other, "a", nullptr, encoded("v")).ok());
  EXPECT_TRUE(pull(*watch).empty());
  EXPECT_EQ(watch->progress(), store->revision());
  EXPECT_EQ(store->get(kind, "a"), nullptr);
}

// Random operations against a map that keeps every state.
TEST_F(StoreTest, AgreesWithASimpleModel) {
  StoreOptions large = options;
  large.history_events = 100000;
  store = Store::create(large, clock);
  kind = store->add_kind(config("things"));
  Rng random(7);
  std::map<std::string, std::string> now;
  std::map<Revision, std::map<std::string, std::string>> states;
  states[store->revision()] = now;
  for (int i = 0; i < 3000; i++) {
    const std::string key = (random.below(2) ? "a/" : "b/") + std::to_string(random.below(700));
    const std::string value = std::to_string(i);
    if (now.contains(key) && random.below(3) == 0) {
      ASSERT_TRUE(store->remove(kind, key, store->get(kind, key)).ok());
      now.erase(key);
    } else {
      ASSERT_TRUE(store->put(kind, key, store->get(kind, key), encoded(value)).ok());
      now[key] = value;
    }
    if (i % 10 == 0) states[store->revision()] = now;
  }
  for (const auto& [revision, state] : states) {
    ListOptions page{.prefix = "b/", .limit = 50, .revision = revision};
    std::map<std::string, std::string> seen;
    while (true) {
      Result<ListResult> result = store->list(kind, page);
      ASSERT_TRUE(result.ok());
      for (const ObjectRef& object : result->items) seen[object->key] = value_of(*object);
      if (!result->more) break;
      page.start_after = result->items.back()->key;
      ASSERT_EQ(result->remaining + seen.size(),
                static_cast<size_t>(std::distance(state.lower_bound("b/"), state.end())));
    }
    const std::map<std::string, std::string> expected(state.lower_bound("b/"), state.end());
    ASSERT_EQ(seen, expected);
  }
}

TEST_F(StoreTest, ManyThreads) {
  constexpr int kThreads = 4, kWrites = 500;
  auto watch = watch_from(store->revision());
  const Revision begin = store->revision();
  std::vector<std::thread> threads;
  std::atomic<int> conflicts{0};
  create("shared");
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kWrites; i++) {
        const std::string key = "t" + std::to_string(t);
        ASSERT_TRUE(store->put(kind, key, store->get(kind, key), encoded(std::to_string(i))).ok());
        if (!store->put(kind, "shared", store->get(kind, "shared"), encoded("x")).ok()) conflicts++;
        ASSERT_TRUE(store->list(kind, {.limit = 3}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Event> events;
  ASSERT_TRUE(watch->next(100000, &events));
  const auto expected = static_cast<size_t>(kThreads * kWrites * 2 - conflicts + 1);
  EXPECT_EQ(events.size(), expected);
  EXPECT_EQ(store->revision() - begin, expected);
  for (size_t i = 1; i < events.size(); i++) ASSERT_EQ(events[i].revision, events[i - 1].revision + 1);
}

}  // namespace
}  // namespace ghostfleet::controlplane
