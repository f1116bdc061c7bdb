// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/incoming_body.hpp>
#include <gyre/io/input.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace incoming_body_test {
namespace {

using namespace gyre::http;
using detail::body_kind;
using detail::head_limits;
using detail::incoming_body;
using detail::message_framing;
using detail::no_error;

constexpr std::uint64_t max_size = 1U << 20U;
constexpr std::size_t window = std::size_t{64} << 10U;

message_framing of_length(std::uint64_t length) {
  return {.body = body_kind::length, .length = length};
}
std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Receives the text, and returns the number of bytes that the body has left in the input.
std::size_t receive(incoming_body& body, std::string_view text) {
  gyre::io::input input(text);
  EXPECT_EQ(body.receive(input, head_limits()), no_error);
  return input.size();
}

TEST(IncomingBody, AWholeBodyIsKeptUntilItsEnd) {
  incoming_body body;
  ASSERT_EQ(body.begin(of_length(5), false, max_size, false), no_error);
  EXPECT_EQ(receive(body, "he"), 0U);
  EXPECT_TRUE(body.expects_more());
  EXPECT_EQ(receive(body, "llo+next"), 5U);
  EXPECT_FALSE(body.expects_more());
  EXPECT_FALSE(body.is_full());
  EXPECT_EQ(body.text(), "hello");
  EXPECT_EQ(body.received(), 5U);
}

TEST(IncomingBody, AWholeBodyMayBeLargerThanTheWindow) {
  incoming_body body;
  const std::string text(3 * window, 'x');
  ASSERT_EQ(body.begin(of_length(text.size()), false, max_size, false), no_error);
  EXPECT_EQ(receive(body, text), 0U);
  EXPECT_FALSE(body.is_full());
  EXPECT_EQ(body.text(), text);
}

TEST(IncomingBody, AStreamedBodyLeavesInTheInputWhatExceedsItsWindow) {
  incoming_body body;
  const std::string text(3 * window, 'x');
  ASSERT_EQ(body.begin(of_length(text.size()), true, max_size, false), no_error);
  EXPECT_EQ(receive(body, text), 2 * window);
  EXPECT_TRUE(body.is_full());
  EXPECT_EQ(receive(body, text.substr(window)), 2 * window);
  EXPECT_EQ(body.take_chunk().size(), window);
  EXPECT_FALSE(body.is_full());
  EXPECT_TRUE(body.text().empty());
  EXPECT_EQ(receive(body, text.substr(window)), window);
}

TEST(IncomingBody, AChunkIsValidWhileTheNextBytesCome) {
  incoming_body body;
  ASSERT_EQ(body.begin(of_length(8), true, max_size, false), no_error);
  receive(body, "one");
  const auto chunk = body.take_chunk();
  receive(body, "two");
  EXPECT_EQ(text_of(chunk), "one");
  body.release_chunk();
  EXPECT_EQ(text_of(body.take_chunk()), "two");
}

TEST(IncomingBody, ChunksAndTrailersAreTakenOff) {
  incoming_body body;
  ASSERT_EQ(body.begin({.body = body_kind::chunked}, false, max_size, false), no_error);
  EXPECT_EQ(receive(body, "2\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n"), 0U);
  EXPECT_FALSE(body.expects_more());
  EXPECT_EQ(body.text(), "hello");
  EXPECT_EQ(body.trailers().get("x"), "y");
}

TEST(IncomingBody, ContinueIsOwedOnceUnlessBytesCome) {
  incoming_body body;
  ASSERT_EQ(body.begin(of_length(2), false, max_size, true), no_error);
  EXPECT_TRUE(body.awaits_continue());
  EXPECT_TRUE(body.take_continue());
  EXPECT_FALSE(body.awaits_continue());
  EXPECT_FALSE(body.take_continue());

  body.reset();
  ASSERT_EQ(body.begin(of_length(2), false, max_size, true), no_error);
  receive(body, "x");
  EXPECT_FALSE(body.take_continue());
}

TEST(IncomingBody, AFailureComesAfterTheBytes) {
  incoming_body body;
  ASSERT_EQ(body.begin(of_length(5), true, max_size, false), no_error);
  receive(body, "he");
  EXPECT_EQ(body.end_input(), errc::truncated);
  EXPECT_EQ(body.error(), errc::truncated);
  EXPECT_FALSE(body.expects_more());
  EXPECT_EQ(text_of(body.take_chunk()), "he");
}

TEST(IncomingBody, AnUpgradeStreamsWhatFollowsAndKeepsTheViewsOfTheBody) {
  incoming_body body;
  ASSERT_EQ(body.begin(of_length(5), false, max_size, false), no_error);
  receive(body, "hello");
  const std::string_view whole = body.text();
  body.begin_upgraded(true);
  EXPECT_TRUE(body.is_streamed());
  EXPECT_TRUE(body.text().empty());
  EXPECT_EQ(receive(body, "\x81\x05world"), 0U);
  EXPECT_EQ(text_of(body.take_chunk()), "\x81\x05world");
  EXPECT_EQ(whole, "hello");
  EXPECT_EQ(body.end_input(), no_error);
  EXPECT_FALSE(body.expects_more());
}

TEST(IncomingBody, AnUpgradeOfAClosingConnectionReceivesNothing) {
  incoming_body body;
  ASSERT_EQ(body.begin({}, false, max_size, false), no_error);
  body.begin_upgraded(false);
  EXPECT_FALSE(body.expects_more());
  EXPECT_EQ(receive(body, "late"), 4U);
}

TEST(IncomingBody, ResetForgetsTheRequestBefore) {
  incoming_body body;
  ASSERT_EQ(body.begin(of_length(5), true, max_size, false), no_error);
  receive(body, "he");
  body.fail(errc::timed_out);
  body.reset();
  EXPECT_TRUE(body.text().empty());
  EXPECT_EQ(body.error(), no_error);
  EXPECT_EQ(body.received(), 0U);
  EXPECT_FALSE(body.is_streamed());
  ASSERT_EQ(body.begin(of_length(2), false, max_size, false), no_error);
  receive(body, "ok");
  EXPECT_EQ(body.text(), "ok");
}

TEST(IncomingBody, ABodyAboveItsLimitIsRefused) {
  incoming_body body;
  EXPECT_EQ(body.begin(of_length(11), false, 10, false), errc::body_too_large);
  body.reset();
  ASSERT_EQ(body.begin({.body = body_kind::chunked}, false, 10, false), no_error);
  gyre::io::input input(std::string_view("b\r\nhello world\r\n0\r\n\r\n"));
  EXPECT_EQ(body.receive(input, head_limits()), errc::body_too_large);
}

}  // namespace
}  // namespace incoming_body_test
