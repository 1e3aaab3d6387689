// Server and client together, over every combination of HTTP/1.1, HTTP/2, TLS and plain.
#include <gtest/gtest.h>

#include <algorithm>

#include "kube/http/http_harness.h"

namespace ghostfleet::kube::http {
namespace {

// GET /echo and so on: answers with the method, the target and the body.
void echo(const std::shared_ptr<Exchange>& exchange) {
  const Request& r = exchange->request();
  std::string text = r.method + " " + r.target + " " + r.body;
  exchange->respond(200, {{"content-type", "text/plain"}, {"x-http2", r.http2 ? "yes" : "no"}}, share(std::move(text)));
}

struct Case {
  bool tls, http2;
};

class ExchangeTest : public ::testing::TestWithParam<Case> {
 protected:
  HarnessOptions options() {
    HarnessOptions o;
    o.tls = GetParam().tls;
    o.http2 = GetParam().http2;
    return o;
  }
};

INSTANTIATE_TEST_SUITE_P(All, ExchangeTest,
                         ::testing::Values(Case{false, false}, Case{false, true}, Case{true, false}, Case{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.tls ? "Tls" : "Plain") + (info.param.http2 ? "H2" : "H1");
                         });

TEST_P(ExchangeTest, AnswersAreThoseOfTheirRequests) {
  Harness h(echo, options());
  Reply& get = h.get("/a?b=c");
  ASSERT_TRUE(get.ended) << get.error.to_string();
  EXPECT_EQ(get.status, 200);
  EXPECT_EQ(get.body, "GET /a?b=c ");
  EXPECT_EQ(get.headers.get("x-http2"), GetParam().http2 ? "yes" : "no");
  EXPECT_EQ(get.headers.get("content-length"), "11");
  EXPECT_FALSE(get.headers.get("date").empty());
  std::vector<Reply*> many;
  for (int i = 0; i < 300; ++i) many.push_back(&h.call("PUT", "/n" + std::to_string(i), std::string(i * 10, 'x')));
  EXPECT_TRUE(h.run_until([&] { return std::all_of(many.begin(), many.end(), [](Reply* r) { return r->done(); }); }));
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(many[i]->body, "PUT /n" + std::to_string(i) + " " + std::string(i * 10, 'x')) << many[i]->error.message();
  }
  EXPECT_LE(h.client->stats().connections_opened, GetParam().http2 ? 4u : 128u);
}

TEST_P(ExchangeTest, LargeBodiesBothWays) {
  Harness h(echo, options());
  const std::string body(3 * 1024 * 1024, 'b');
  Reply& reply = h.call("POST", "/big", body);
  ASSERT_TRUE(h.run_until([&] { return reply.done(); }));
  ASSERT_TRUE(reply.ended) << reply.error.to_string();
  EXPECT_EQ(reply.body.size(), body.size() + 10);
}

TEST_P(ExchangeTest, ABodyOnePastTheLimitIs413) {
  Harness h(echo, options());
  const std::string body(3 * 1024 * 1024 + 1, 'b');
  Reply& reply = h.call("POST", "/big", body);
  ASSERT_TRUE(h.run_until([&] { return reply.done(); }));
  ASSERT_TRUE(reply.ended) << reply.error.to_string();
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(h.get("/after").body, "GET /after ");
}

TEST_P(ExchangeTest, HeadersAtTheLimitAndPastIt) {
  HarnessOptions o = options();
  o.limits.max_header_bytes = 8192;
  Harness h(echo, o);
  const HeaderList fits{{"x-pad", std::string(7900, 'p')}};
  const HeaderList too_large{{"x-pad", std::string(8192, 'p')}};
  Reply& first = h.call("GET", "/fits", "", {}, &fits);
  ASSERT_TRUE(h.run_until([&] { return first.done(); }));
  EXPECT_EQ(first.status, 200) << first.error.to_string();
  Reply& second = h.call("GET", "/too", "", {}, &too_large);
  ASSERT_TRUE(h.run_until([&] { return second.done(); }));
  EXPECT_EQ(second.status, 431) << second.error.to_string();
}

TEST_P(ExchangeTest, AnAnswerInPieces) {
  std::shared_ptr<Exchange> kept;
  Harness h(
      [&](std::shared_ptr<Exchange> exchange) {
        kept = std::move(exchange);
        kept->start(200, {{"content-type", "application/json"}});
      },
      options());
  Reply& reply = h.call("GET", "/watch");
  ASSERT_TRUE(h.run_until([&] { return reply.status == 200; })) << reply.error.to_string();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(kept->write(share("event" + std::to_string(i) + "\n")));
    ASSERT_TRUE(h.run_until([&] { return reply.body.size() == 7u * (i + 1); }));
  }
  kept->finish();
  ASSERT_TRUE(h.run_until([&] { return reply.ended; }));
  EXPECT_EQ(reply.body, "event0\nevent1\nevent2\nevent3\nevent4\n");
  EXPECT_FALSE(kept->write(share("late")));
}

TEST_P(ExchangeTest, AnAbortedAnswerIsAnError) {
  Harness h(
      [&](const std::shared_ptr<Exchange>& exchange) {
        exchange->start(200, {});
        exchange->write(share("half"));
        exchange->loop().run_after(std::chrono::milliseconds(30), [exchange] { exchange->abort(); });
      },
      options());
  Reply& reply = h.get("/cut");
  EXPECT_TRUE(reply.failed);
  EXPECT_EQ(reply.error.code(), Code::kUnavailable);
  EXPECT_TRUE(reply.sent);
}

TEST_P(ExchangeTest, AForgottenExchangeIsAnError) {
  Harness h([](const std::shared_ptr<Exchange>&) {}, options());
  EXPECT_TRUE(h.get("/forgotten").failed);
}

TEST_P(ExchangeTest, TheServerHearsOfACancelledCall) {
  std::shared_ptr<Exchange> kept;
  bool closed = false;
  Harness h(
      [&](std::shared_ptr<Exchange> exchange) {
        kept = std::move(exchange);
        kept->on_close([&] { closed = true; });
        kept->start(200, {});
      },
      options());
  Reply& reply = h.call("GET", "/watch");
  ASSERT_TRUE(h.run_until([&] { return reply.status == 200; }));
  h.client->cancel(h.ids.back());
  EXPECT_TRUE(h.run_until([&] { return closed; }));
  EXPECT_TRUE(kept->closed());
  EXPECT_FALSE(reply.done());
}

TEST_P(ExchangeTest, ADeadlineEndsACall) {
  std::vector<std::shared_ptr<Exchange>> kept;
  Harness h([&](std::shared_ptr<Exchange> exchange) { kept.push_back(std::move(exchange)); }, options());
  CallOptions call_options;
  call_options.timeout = std::chrono::milliseconds(100);
  Reply& reply = h.call("GET", "/never", "", call_options);
  ASSERT_TRUE(h.run_until([&] { return reply.done(); }));
  EXPECT_EQ(reply.error.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(h.run_until([&] { return !kept.empty() && kept[0]->closed(); }));
}

TEST_P(ExchangeTest, ASlowReaderIsCut) {
  // The client's handler cannot be slow, so the backlog grows within one turn of the loop.
  bool cut = false;
  size_t written = 0;
  HarnessOptions o = options();
  o.limits.max_backlog_bytes = 1 << 20;
  Harness h(
      [&](const std::shared_ptr<Exchange>& exchange) {
        exchange->start(200, {});
        const SharedBytes piece = share(std::string(100 * 1024, 'w'));
        while (exchange->write(piece)) written += piece->size();
        cut = true;
      },
      o);
  Reply& reply = h.get("/flood");
  EXPECT_TRUE(cut);
  EXPECT_LE(written, 1u << 20);
  EXPECT_GE(written, (1u << 20) - 110 * 1024);
  EXPECT_TRUE(reply.failed);
}

TEST_P(ExchangeTest, AWriterWaitsForTheBacklog) {
  constexpr int kPieces = 200;
  int written = 0;
  size_t most = 0;
  std::function<void(std::shared_ptr<Exchange>)> more = [&](const std::shared_ptr<Exchange>& exchange) {
    while (written < kPieces && exchange->backlog() < 512 * 1024) {
      exchange->write(share(std::string(64 * 1024, 'w')));
      ++written;
    }
    most = std::max(most, exchange->backlog());
    if (written == kPieces) return exchange->finish();
    exchange->when_drained(256 * 1024, [&more, exchange] { more(exchange); });
  };
  Harness h(
      [&](const std::shared_ptr<Exchange>& exchange) {
        exchange->start(200, {});
        more(exchange);
      },
      options());
  Reply& reply = h.get("/list");
  ASSERT_TRUE(reply.ended) << reply.error.to_string();
  EXPECT_EQ(reply.body.size(), static_cast<size_t>(kPieces) * 64 * 1024);
  EXPECT_LE(most, 600u * 1024);
}

TEST_P(ExchangeTest, DrainLetsOpenAnswersEnd) {
  std::shared_ptr<Exchange> kept;
  Harness h(
      [&](std::shared_ptr<Exchange> exchange) {
        kept = std::move(exchange);
        kept->start(200, {});
      },
      options());
  Reply& reply = h.call("GET", "/slow");
  ASSERT_TRUE(h.run_until([&] { return reply.status == 200; }));
  bool drained = false;
  h.server->drain(std::chrono::seconds(20), [&] { drained = true; });
  h.loop.run_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(drained);
  EXPECT_FALSE(reply.done());
  kept->write(share("last words"));
  kept->finish();
  EXPECT_TRUE(h.run_until([&] { return drained && reply.done(); }));
  EXPECT_EQ(reply.body, "last words");
  EXPECT_EQ(h.server->connection_count(), 0u);
  Reply& refused = h.get("/refused");
  EXPECT_TRUE(refused.failed);
  EXPECT_FALSE(refused.sent);
  EXPECT_NE(refused.error.message().find("Connection refused"), std::string::npos) << refused.error.message();
}

TEST_P(ExchangeTest, DrainCutsWhatDoesNotEnd) {
  std::shared_ptr<Exchange> kept;
  Harness h([&](std::shared_ptr<Exchange> exchange) { kept = std::move(exchange); }, options());
  Reply& reply = h.call("GET", "/slow");
  ASSERT_TRUE(h.run_until([&] { return kept != nullptr; }));
  bool drained = false;
  h.server->drain(std::chrono::milliseconds(60), [&] { drained = true; });
  EXPECT_TRUE(h.run_until([&] { return drained && reply.done(); }));
  EXPECT_TRUE(reply.failed);
  EXPECT_TRUE(reply.sent);
}

TEST_P(ExchangeTest, HeadHasALengthAndNoBody) {
  Harness h(echo, options());
  Reply& reply = h.call("HEAD", "/x");
  ASSERT_TRUE(h.run_until([&] { return reply.done(); }));
  ASSERT_TRUE(reply.ended) << reply.error.to_string();
  EXPECT_EQ(reply.body, "");
  EXPECT_EQ(reply.headers.get("content-length"), "8");
  EXPECT_EQ(h.get("/after").body, "GET /after ");
}

TEST_P(ExchangeTest, CallsFromInsideCallbacks) {
  Harness h(echo, options());
  Reply& first = h.call("GET", "/1");
  Reply* second = nullptr;
  first.on_done = [&] { second = &h.call("GET", "/2"); };
  EXPECT_TRUE(h.run_until([&] { return second && second->done(); }));
  EXPECT_EQ(second->body, "GET /2 ");
  Reply& cancelled = h.call("GET", "/3");
  const CallId id = h.ids.back();
  cancelled.on_piece = [&] { h.client->cancel(id); };
  EXPECT_TRUE(h.run_until([&] { return cancelled.pieces > 0; }));
  EXPECT_EQ(h.get("/4").body, "GET /4 ");
  EXPECT_FALSE(cancelled.done());
}

TEST_P(ExchangeTest, IdleConnectionsAreClosedOnRequest) {
  Harness h(echo, options());
  h.get("/1");
  EXPECT_EQ(h.client->stats().open_connections, 1u);
  h.client->close_idle();
  EXPECT_EQ(h.client->stats().open_connections, 0u);
  EXPECT_TRUE(h.run_until([&] { return h.server->connection_count() == 0; }));
  EXPECT_EQ(h.get("/2").body, "GET /2 ");
  EXPECT_EQ(h.client->stats().connections_opened, 2u);
}

TEST_P(ExchangeTest, AnIdleConnectionIsClosedByTheServer) {
  HarnessOptions o = options();
  o.limits.idle_timeout_ms = 100;
  Harness h(echo, o);
  h.get("/1");
  // Also the client has seen it: what it sends before that is lost with the connection.
  EXPECT_TRUE(
      h.run_until([&] { return h.server->connection_count() == 0 && h.client->stats().open_connections == 0; }));
  EXPECT_EQ(h.get("/2").body, "GET /2 ");
}

}  // namespace
}  // namespace ghostfleet::kube::http
