#include <gtest/gtest.h>

#include <vector>

#include "kube/grpc/message_reader.h"
#include "kube/grpc/rpc_headers.h"
#include "kube/grpc/rpc_status.h"

namespace ghostfleet::kube::grpc {
namespace {

using Next = MessageReader::Next;

std::vector<std::string> read_all(MessageReader* reader) {
  std::vector<std::string> out;
  std::string_view message;
  while (reader->next(&message) == Next::kMessage) out.emplace_back(message);
  return out;
}

std::string framed(const std::vector<std::string>& messages) {
  std::string out;
  for (const std::string& m : messages) append_framed(&out, m);
  return out;
}

TEST(MessageReaderTest, PrefixIsAFlagAndABigEndianLength) {
  EXPECT_EQ(*frame_message("abc"), std::string("\0\0\0\0\3abc", 8));
  EXPECT_EQ(frame_message(std::string(0x010203, 'x'))->substr(0, 5), std::string("\0\0\1\2\3", 5));
}

TEST(MessageReaderTest, MessagesComeWhereverTheBytesAreCut) {
  const std::vector<std::string> messages = {"", "one", std::string(300, 'b'), "", "last"};
  const std::string bytes = framed(messages);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    MessageReader reader(Side::kServer, 1000);
    reader.append(std::string_view(bytes).substr(0, cut));
    std::vector<std::string> got = read_all(&reader);
    reader.append(std::string_view(bytes).substr(cut));
    for (std::string& m : read_all(&reader)) got.push_back(std::move(m));
    ASSERT_EQ(got, messages) << "cut at " << cut;
    EXPECT_TRUE(reader.finish().ok());
  }
}

TEST(MessageReaderTest, ByteByByteNothingIsKeptTwice) {
  const std::string bytes = framed({"first", "second"});
  MessageReader reader(Side::kServer, 1000);
  std::vector<std::string> got;
  for (const char c : bytes) {
    reader.append(std::string_view(&c, 1));
    for (std::string& m : read_all(&reader)) got.push_back(std::move(m));
  }
  EXPECT_EQ(got, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(reader.buffered(), 0u);
}

TEST(MessageReaderTest, LengthAtTheLimitAndOnePast) {
  MessageReader at_limit(Side::kServer, 10);
  at_limit.append(framed({std::string(10, 'x')}));
  EXPECT_EQ(read_all(&at_limit).size(), 1u);

  MessageReader past(Side::kServer, 10);
  past.append(std::string("\0\0\0\0\x0b", 5));  // the length alone is enough
  std::string_view message;
  EXPECT_EQ(past.next(&message), Next::kError);
  EXPECT_EQ(past.error().text(),
            "rpc error: code = ResourceExhausted desc = grpc: received message larger than max (11 vs. 10)");
  past.append("more");
  EXPECT_EQ(past.buffered(), 0u) << "a broken stream keeps nothing";
  EXPECT_EQ(past.next(&message), Next::kError);
}

TEST(MessageReaderTest, CompressedAndUnknownFlags) {
  const auto error = [](Side side, std::string_view encoding, char flag) {
    MessageReader reader(side, 10);
    reader.set_encoding(encoding);
    reader.append(std::string({flag, 0, 0, 0, 0}));
    std::string_view message;
    EXPECT_EQ(reader.next(&message), Next::kError);
    return reader.error().text();
  };
  EXPECT_EQ(error(Side::kServer, "", 1),
            "rpc error: code = Internal desc = grpc: compressed flag set with identity or empty encoding");
  EXPECT_EQ(error(Side::kServer, "gzip", 1),
            "rpc error: code = Unimplemented desc = grpc: Decompressor is not installed for grpc-encoding \"gzip\"");
  EXPECT_EQ(error(Side::kClient, "gzip", 1),
            "rpc error: code = Internal desc = grpc: Decompressor is not installed for grpc-encoding \"gzip\"");
  EXPECT_EQ(error(Side::kServer, "", 7),
            "rpc error: code = Internal desc = grpc: received unexpected payload format 7");
}

TEST(MessageReaderTest, EndWithinAMessageIsAnError) {
  const std::string bytes = framed({"whole"});
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    MessageReader reader(Side::kServer, 100);
    reader.append(std::string_view(bytes).substr(0, cut));
    EXPECT_TRUE(read_all(&reader).empty());
    EXPECT_EQ(reader.finish().text(), "rpc error: code = Internal desc = unexpected EOF") << cut;
  }
}

TEST(RpcHeadersTest, TimeoutsAreRead) {
  const auto ns = [](std::string_view text) { return parse_grpc_timeout(text).value().count(); };
  EXPECT_EQ(ns("1n"), 1);
  EXPECT_EQ(ns("2u"), 2'000);
  EXPECT_EQ(ns("3m"), 3'000'000);
  EXPECT_EQ(ns("4S"), 4'000'000'000);
  EXPECT_EQ(ns("5M"), 300'000'000'000);
  EXPECT_EQ(ns("2H"), 7'200'000'000'000);
  EXPECT_EQ(ns("0n"), 0);
  EXPECT_EQ(ns("99999999S"), 99'999'999'000'000'000);
  EXPECT_EQ(parse_grpc_timeout("99999999H").value(), Duration::max()) << "beyond a Duration";
}

TEST(RpcHeadersTest, BadTimeoutsSayWhat) {
  const auto error = [](std::string_view text) { return parse_grpc_timeout(text).error().message(); };
  EXPECT_EQ(error(""), "transport: timeout string is too short: \"\"");
  EXPECT_EQ(error("S"), "transport: timeout string is too short: \"S\"");
  EXPECT_EQ(error("123456789S"), "transport: timeout string is too long: \"123456789S\"");
  EXPECT_EQ(error("10x"), "transport: timeout unit is not recognized: \"10x\"");
  EXPECT_EQ(error("1.5S"), "strconv.ParseUint: parsing \"1.5\": invalid syntax");
  EXPECT_EQ(error("-1S"), "strconv.ParseUint: parsing \"-1\": invalid syntax");
}

TEST(RpcHeadersTest, TimeoutsAreWrittenInTheFinestUnitAndRoundedUp) {
  EXPECT_EQ(format_grpc_timeout(Duration(0)), "0n");
  EXPECT_EQ(format_grpc_timeout(Duration(-5)), "0n");
  EXPECT_EQ(format_grpc_timeout(Duration(99'999'999)), "99999999n");
  EXPECT_EQ(format_grpc_timeout(Duration(100'000'000)), "100000u");
  EXPECT_EQ(format_grpc_timeout(Duration(100'000'001)), "100001u");
  EXPECT_EQ(format_grpc_timeout(std::chrono::seconds(10)), "10000000u");
  EXPECT_EQ(format_grpc_timeout(std::chrono::hours(24)), "86400000m");
  for (const int64_t n : {int64_t{1}, int64_t{123'456'789'012}, int64_t{9'000'000'000'000'000'000}}) {
    const Duration back = parse_grpc_timeout(format_grpc_timeout(Duration(n))).value();
    EXPECT_GE(back.count(), n) << "a deadline is never told shorter";
  }
}

TEST(RpcHeadersTest, MessagesArePercentEncoded) {
  EXPECT_EQ(encode_grpc_message("no such device: 100% gone\n"), "no such device: 100%25 gone%0A");
  EXPECT_EQ(encode_grpc_message("für"), "f%C3%BCr");
  EXPECT_EQ(encode_grpc_message("\xF0\x9F\x91\xBB"), "%F0%9F%91%BB");
  EXPECT_EQ(encode_grpc_message("a\xFFz\xC3"), "a%EF%BF%BDz%EF%BF%BD") << "bytes that are no UTF-8";
  EXPECT_EQ(encode_grpc_message("\xED\xA0\x80"), "%EF%BF%BD%EF%BF%BD%EF%BF%BD") << "a surrogate";
  EXPECT_EQ(decode_grpc_message("f%C3%BCr %25 %0a"), "für % \n");
  EXPECT_EQ(decode_grpc_message("%zz %4 %"), "%zz %4 %") << "a bad escape stays";
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  EXPECT_EQ(decode_grpc_message(encode_grpc_message(all)), all);
}

TEST(RpcHeadersTest, ContentTypes) {
  EXPECT_TRUE(is_grpc_content_type("application/grpc"));
  EXPECT_TRUE(is_grpc_content_type("application/grpc+proto"));
  EXPECT_TRUE(is_grpc_content_type("Application/GRPC;charset=utf-8"));
  EXPECT_FALSE(is_grpc_content_type("application/grpc-web"));
  EXPECT_FALSE(is_grpc_content_type("application/json"));
  EXPECT_FALSE(is_grpc_content_type(""));
}

TEST(RpcHeadersTest, MethodsAreServiceAndName) {
  std::string_view service, method;
  ASSERT_TRUE(split_method("/v1beta1.Registration/Register", &service, &method));
  EXPECT_EQ(service, "v1beta1.Registration");
  EXPECT_EQ(method, "Register");
  EXPECT_FALSE(split_method("/", &service, &method));
  EXPECT_FALSE(split_method("", &service, &method));
  EXPECT_FALSE(split_method("Register", &service, &method));
}

TEST(RpcHeadersTest, StatusThereAndBack) {
  const RpcStatus gone = rpc_error(RpcCode::kNotFound, "100% gone: \xE2\x98\xA0");
  const http::HeaderList trailers = status_trailers(gone);
  EXPECT_EQ(trailers.get("grpc-status"), "5");
  const RpcStatus back = read_status(trailers);
  EXPECT_EQ(back.code, gone.code);
  EXPECT_EQ(back.message, gone.message);
  EXPECT_FALSE(status_trailers(RpcStatus()).find("grpc-message"));
  EXPECT_EQ(trailers_only(gone).get("content-type"), "application/grpc");
}

TEST(RpcHeadersTest, StatusThatIsMissingOrNoNumberIsUnknown) {
  EXPECT_EQ(read_status({}).code, RpcCode::kUnknown);
  EXPECT_EQ(read_status({{"grpc-status", "five"}}).text(),
            "rpc error: code = Unknown desc = transport: malformed grpc-status: strconv.ParseInt: parsing \"five\": "
            "invalid syntax");
  EXPECT_EQ(read_status({{"grpc-status", "99"}, {"grpc-message", "x"}}).text(), "rpc error: code = Code(99) desc = x");
}

TEST(RpcStatusTest, HttpAnswersOfOthers) {
  EXPECT_EQ(status_of_foreign_answer(404, {{"content-type", "text/html"}}).text(),
            "rpc error: code = Unimplemented desc = unexpected HTTP status code received from server: 404 (Not Found); "
            "transport: received unexpected content-type \"text/html\"");
  EXPECT_EQ(status_of_foreign_answer(503, {}).text(),
            "rpc error: code = Unavailable desc = unexpected HTTP status code received from server: 503 (Service "
            "Unavailable); malformed header: missing HTTP content-type");
  EXPECT_EQ(rpc_code_of_http(400), RpcCode::kInternal);
  EXPECT_EQ(rpc_code_of_http(401), RpcCode::kUnauthenticated);
  EXPECT_EQ(rpc_code_of_http(403), RpcCode::kPermissionDenied);
  EXPECT_EQ(rpc_code_of_http(429), RpcCode::kUnavailable);
  EXPECT_EQ(rpc_code_of_http(500), RpcCode::kUnknown);
}

TEST(RpcStatusTest, ResetStreams) {
  EXPECT_EQ(rpc_code_of_reset(0x0), RpcCode::kInternal);
  EXPECT_EQ(rpc_code_of_reset(0x3), RpcCode::kResourceExhausted);
  EXPECT_EQ(rpc_code_of_reset(0x7), RpcCode::kUnavailable);
  EXPECT_EQ(rpc_code_of_reset(0x8), RpcCode::kCanceled);
  EXPECT_EQ(rpc_code_of_reset(0xb), RpcCode::kResourceExhausted);
  EXPECT_EQ(rpc_code_of_reset(0xc), RpcCode::kPermissionDenied);
  EXPECT_EQ(rpc_code_of_reset(0x99), RpcCode::kUnknown);
}

TEST(RpcStatusTest, TextsAndStatus) {
  EXPECT_EQ(rpc_unknown("no device").text(), "rpc error: code = Unknown desc = no device");
  EXPECT_EQ(RpcStatus().text(), "");
  EXPECT_TRUE(RpcStatus().to_status().ok());
  const Status status = rpc_error(RpcCode::kDeadlineExceeded, "late").to_status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "rpc error: code = DeadlineExceeded desc = late");
  EXPECT_EQ(rpc_code_name(RpcCode::kUnauthenticated), "Unauthenticated");
}

}  // namespace
}  // namespace ghostfleet::kube::grpc
