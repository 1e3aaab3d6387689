// Client and server of ours with each other, over a unix socket, TCP and TLS.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "kube/grpc/rpc_harness.h"
#include "kube/http/tls.h"
#include "tests/support/test_pki.h"

namespace ghostfleet::kube::grpc {
namespace {

RpcServices echo_services() {
  RpcServices services;
  services.unary("/test.Echo/Say",
                 [](const std::shared_ptr<ServerCall>& call, std::string request) { call->reply("echo " + request); });
  services.unary("/test.Echo/Fail", [](const std::shared_ptr<ServerCall>& call, const std::string& request) {
    call->finish(rpc_unknown(request));
  });
  services.unary("/test.Echo/Count", [](const std::shared_ptr<ServerCall>& call, const std::string& request) {
    for (int i = 0; i < std::stoi(request); ++i) call->send(std::to_string(i));
    call->finish(RpcStatus());
  });
  services.unary("/test.Echo/Metadata", [](const std::shared_ptr<ServerCall>& call, const std::string& name) {
    call->reply(call->request().headers.get(name));
  });
  return services;
}

TEST(RpcTest, UnaryCall) {
  Harness h(echo_services());
  const Outcome& out = h.call("/test.Echo/Say", "hello");
  EXPECT_TRUE(out.status.ok()) << out.status.text();
  EXPECT_EQ(out.reply, "echo hello");
  EXPECT_EQ(h.client->open_calls(), 0u);
}

TEST(RpcTest, EmptyMessagesAreMessages) {
  Harness h(echo_services());
  const Outcome& out = h.call("/test.Echo/Metadata", "x-none");
  EXPECT_TRUE(out.status.ok()) << out.status.text();
  EXPECT_EQ(out.reply, "");
}

TEST(RpcTest, WhatAPeerOfAUnixSocketSees) {
  Harness h(echo_services());
  RpcCallOptions options;
  options.metadata.add("x-node", "n-1");
  EXPECT_EQ(h.call("/test.Echo/Metadata", "host", options).reply, "localhost");
  EXPECT_EQ(h.call("/test.Echo/Metadata", "te", options).reply, "trailers");
  EXPECT_EQ(h.call("/test.Echo/Metadata", "x-node", options).reply, "n-1");
  EXPECT_EQ(h.call("/test.Echo/Metadata", "grpc-timeout", options).reply, "") << "no deadline, none told";
}

TEST(RpcTest, ErrorsKeepCodeAndMessage) {
  Harness h(echo_services());
  const Outcome& out = h.call("/test.Echo/Fail", "für 100%\n");
  EXPECT_EQ(out.status.text(), "rpc error: code = Unknown desc = für 100%\n");
}

TEST(RpcTest, UnknownMethodsAreUnimplemented) {
  Harness h(echo_services());
  EXPECT_EQ(h.call("/test.Other/Say", "").status.text(),
            "rpc error: code = Unimplemented desc = unknown service test.Other");
  EXPECT_EQ(h.call("/test.Echo/Sing", "").status.text(),
            "rpc error: code = Unimplemented desc = unknown method Sing for service test.Echo");
  EXPECT_EQ(h.call("/test.Ech/Say", "").status.text(),
            "rpc error: code = Unimplemented desc = unknown service test.Ech");
  EXPECT_EQ(h.call("/Say", "").status.text(), "rpc error: code = Unimplemented desc = malformed method name: \"/Say\"");
}

TEST(RpcTest, AStreamOfAnswers) {
  Harness h(echo_services());
  Outcome& out = h.stream("/test.Echo/Count", "1000");
  ASSERT_TRUE(h.run_until([&] { return out.done; }));
  EXPECT_TRUE(out.status.ok()) << out.status.text();
  ASSERT_EQ(out.messages.size(), 1000u);
  EXPECT_EQ(out.messages.front(), "0");
  EXPECT_EQ(out.messages.back(), "999");
}

TEST(RpcTest, UnaryCallsHaveOneAnswer) {
  Harness h(echo_services());
  EXPECT_EQ(
      h.call("/test.Echo/Count", "2").status.text(),
      "rpc error: code = Internal desc = cardinality violation: expected <EOF> for non server-streaming RPCs, but "
      "received another message");
  EXPECT_EQ(h.call("/test.Echo/Count", "0").status.text(),
            "rpc error: code = Internal desc = cardinality violation: received no response message from "
            "non-server-streaming RPC");
  EXPECT_EQ(h.call("/test.Echo/Say", "still").reply, "echo still");
}

TEST(RpcTest, MessagesAtTheLimitAndOnePast) {
  RpcServices services;
  services.unary("/test.Size/Take", [](const std::shared_ptr<ServerCall>& call, const std::string& request) {
    call->reply(std::to_string(request.size()));
  });
  services.unary("/test.Size/Give", [](const std::shared_ptr<ServerCall>& call, const std::string& request) {
    call->reply(std::string(std::stoul(request), 'x'));
  });
  Harness h(std::move(services));
  EXPECT_EQ(h.call("/test.Size/Take", std::string(kMaxMessageBytes, 'x')).reply, std::to_string(kMaxMessageBytes));
  EXPECT_EQ(h.call("/test.Size/Take", std::string(kMaxMessageBytes + 1, 'x')).status.text(),
            "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (4194305 vs. 4194304)");
  EXPECT_EQ(h.call("/test.Size/Give", std::to_string(kMaxMessageBytes)).reply.size(), kMaxMessageBytes);
  EXPECT_EQ(h.call("/test.Size/Give", std::to_string(kMaxMessageBytes + 1)).status.text(),
            "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (4194305 vs. 4194304)");
  EXPECT_EQ(h.call("/test.Size/Take", "abc").reply, "3") << "the connection goes on";
}

TEST(RpcTest, DeadlineOfAServerThatNeverAnswers) {
  RpcServices services;
  std::vector<std::shared_ptr<ServerCall>> held;
  int closed = 0;
  services.unary("/test.Slow/Wait", [&](const std::shared_ptr<ServerCall>& call, const std::string&) {
    held.push_back(call);
    call->on_close([&closed] { ++closed; });
  });
  Harness h(std::move(services));
  RpcCallOptions options;
  options.timeout = std::chrono::milliseconds(60);
  const Outcome& out = h.call("/test.Slow/Wait", "", options);
  EXPECT_EQ(out.status.text(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
  ASSERT_TRUE(h.run_until([&] { return closed == 1; })) << "the handler learns of it";
  EXPECT_TRUE(held[0]->closed());
  EXPECT_FALSE(held[0]->send("late"));
  held[0]->finish(RpcStatus());  // harmless
}

TEST(RpcTest, CancelIsSeenByTheServer) {
  RpcServices services;
  std::shared_ptr<ServerCall> held;
  bool closed = false;
  services.unary("/test.Watch/All", [&](const std::shared_ptr<ServerCall>& call, const std::string&) {
    held = call;
    call->on_close([&closed] { closed = true; });
    call->send("first");
  });
  Harness h(std::move(services));
  Outcome& out = h.stream("/test.Watch/All", "");
  ASSERT_TRUE(h.run_until([&] { return out.messages.size() == 1; }));
  h.client->cancel(h.last_id);
  ASSERT_TRUE(h.run_until([&] { return closed; }));
  EXPECT_FALSE(out.done) << "no callback after cancel()";
  EXPECT_FALSE(held->send("second"));
}

TEST(RpcTest, AHandlerThatForgetsToAnswer) {
  RpcServices services;
  services.unary("/test.Bad/Forget", [](const std::shared_ptr<ServerCall>&, const std::string&) {});
  Harness h(std::move(services));
  EXPECT_EQ(h.call("/test.Bad/Forget", "").status.text(),
            "rpc error: code = Unknown desc = the handler gave no answer");
}

TEST(RpcTest, ServerThatGoesAwayInMidStream) {
  RpcServices services;
  std::shared_ptr<ServerCall> held;
  services.unary("/test.Watch/All", [&](const std::shared_ptr<ServerCall>& call, const std::string&) {
    held = call;
    call->send("first");
  });
  Harness h(std::move(services));
  Outcome& out = h.stream("/test.Watch/All", "");
  ASSERT_TRUE(h.run_until([&] { return out.messages.size() == 1; }));
  h.server.reset();
  ASSERT_TRUE(h.run_until([&] { return out.done; }));
  EXPECT_EQ(out.status.text(), "rpc error: code = Unavailable desc = error reading from server: EOF");
  EXPECT_TRUE(held->closed());
}

TEST(RpcTest, DialErrorsAreThoseOfGo) {
  Harness h;
  EXPECT_EQ(
      h.call("/test.Echo/Say", "").status.text(),
      "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix " +
          h.path() + ": connect: no such file or directory\"");
}

TEST(RpcTest, WaitingForAServerThatComesLater) {
  Harness h;
  RpcCallOptions options;
  options.wait_for_ready = true;
  options.timeout = std::chrono::seconds(10);
  Outcome& out = h.start("/test.Echo/Say", "early", options);
  bool later = false;
  h.loop.run_after(std::chrono::milliseconds(150), [&] { later = true; });
  ASSERT_TRUE(h.run_until([&] { return later; }));
  ASSERT_FALSE(out.done) << out.status.text();
  RpcServerOptions server_options;
  server_options.address = h.address();
  h.server = std::move(RpcServer::listen(server_options, {&h.loop}, echo_services()).value());
  ASSERT_TRUE(h.run_until([&] { return out.done; }));
  EXPECT_EQ(out.reply, "echo early");
}

TEST(RpcTest, WaitingEndsWithTheDeadline) {
  Harness h;
  RpcCallOptions options;
  options.wait_for_ready = true;
  options.timeout = std::chrono::milliseconds(100);
  const Outcome& out = h.call("/test.Echo/Say", "", options);
  ASSERT_TRUE(out.done);
  EXPECT_EQ(out.status.code, RpcCode::kDeadlineExceeded);
  EXPECT_NE(out.status.message.find("no such file or directory"), std::string::npos) << out.status.message;
}

TEST(RpcTest, OverTcpAndTls) {
  testing::TestPki pki;
  EventLoop loop;
  const auto pair = pki.server();
  RpcServerOptions server_options;
  server_options.address = "127.0.0.1";
  server_options.tls = http::TlsContext::server({pair.certificate_pem, pair.key_pem, pki.ca_pem(), {"h2"}}).value();
  auto server = std::move(RpcServer::listen(server_options, {&loop}, echo_services()).value());
  http::TlsClientConfig tls;
  tls.ca_pem = pki.ca_pem();
  tls.alpn = {"h2"};
  RpcClientOptions client_options;
  client_options.host = "127.0.0.1";
  client_options.port = server->port();
  client_options.tls = http::TlsContext::client(tls).value();
  auto client = RpcClient::create(loop, client_options);
  std::string reply;
  client->call("/test.Echo/Say", "tls", {},
               [&](const RpcStatus& status, std::string r) { reply = status.ok() ? std::move(r) : status.text(); });
  for (int i = 0; i < 5000 && reply.empty(); ++i) loop.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(reply, "echo tls");
  client.reset();
  server.reset();
  loop.run_for(std::chrono::milliseconds(1));
}

class UnixSocketTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<RpcServer>> listen(const std::string& path, unsigned mode = 0600) {
    RpcServerOptions options;
    options.address = "unix:" + path;
    options.unix_mode = mode;
    return RpcServer::listen(options, {&loop}, echo_services());
  }
  static unsigned mode_of(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
  }
  tests::TemporaryFolder folder;
  EventLoop loop;
};

TEST_F(UnixSocketTest, ModeIsForTheOwnerAloneUnlessTold) {
  const auto own = listen(folder.path() + "/own");
  const auto open = listen(folder.path() + "/open", 0666);
  ASSERT_TRUE(own.ok() && open.ok());
  EXPECT_EQ(mode_of(folder.path() + "/own"), 0600u);
  EXPECT_EQ(mode_of(folder.path() + "/open"), 0666u);
}

TEST_F(UnixSocketTest, TheFileGoesWithTheServerUnlessAnotherHasItsPlace) {
  const std::string path = folder.path() + "/s";
  {
    const auto server = listen(path);
    ASSERT_TRUE(server.ok());
    EXPECT_NE(mode_of(path), 0u);
  }
  EXPECT_EQ(mode_of(path), 0u);
  auto first = listen(path);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const auto second = listen(path);
  ASSERT_TRUE(second.ok()) << second.error().message();
  first->reset();
  EXPECT_NE(mode_of(path), 0u) << "the second's file stays";
}

TEST_F(UnixSocketTest, AStaleSocketIsReplacedALiveOneIsNot) {
  const std::string path = folder.path() + "/s";
  const auto live = listen(path);
  ASSERT_TRUE(live.ok());
  const auto second = listen(path);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), Code::kAlreadyExists);
  EXPECT_EQ(second.error().message(), "listen on unix:" + path + ": another process listens on this socket");

  // A socket file whose process has died.
  const std::string stale = folder.path() + "/stale";
  ASSERT_EQ(::rename(path.c_str(), stale.c_str()), 0);
  loop.run_for(std::chrono::milliseconds(1));
  {
    const auto kept = listen(folder.path() + "/other");
    ASSERT_TRUE(kept.ok());
    ASSERT_EQ(::rename((folder.path() + "/other").c_str(), (folder.path() + "/dead").c_str()), 0);
  }
  ASSERT_NE(mode_of(folder.path() + "/dead"), 0u);
  const auto again = listen(folder.path() + "/dead");
  EXPECT_TRUE(again.ok()) << again.error().message();
}

TEST_F(UnixSocketTest, OtherFilesAreNotTouched) {
  const std::string path = folder.path() + "/data";
  std::ofstream(path) << "precious";
  const auto server = listen(path);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.error().message(),
            "listen on unix:" + path + ": the path exists and is not a socket: remove it or choose another");
  EXPECT_NE(mode_of(path), 0u);
}

TEST_F(UnixSocketTest, PathsAtTheLimitAndOnePast) {
  const std::string fits = folder.path() + "/" + std::string(107 - folder.path().size() - 1, 's');
  ASSERT_EQ(fits.size(), 107u);
  const auto at_limit = listen(fits);
  EXPECT_TRUE(at_limit.ok()) << at_limit.error().message();
  const auto past = listen(fits + "s");
  ASSERT_FALSE(past.ok());
  EXPECT_EQ(past.error().message(),
            "listen on unix:" + fits + "s: the path \"" + fits + "s\" has 108 bytes; a unix socket's has at most 107");
  const auto relative = listen("run/s.sock");
  ASSERT_FALSE(relative.ok());
  EXPECT_EQ(relative.error().message(),
            "listen on unix:run/s.sock: \"run/s.sock\" is no absolute path of a unix socket");
}

TEST_F(UnixSocketTest, AFolderThatIsNotThere) {
  const auto server = listen(folder.path() + "/none/s");
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message().find("No such file or directory"), std::string::npos);
}

}  // namespace
}  // namespace ghostfleet::kube::grpc
