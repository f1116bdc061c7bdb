// SPDX-License-Identifier: Apache-2.0
// The parsers of http allocate nothing once their memory has grown.
#include <gyre/http/cookie.hpp>
#include <gyre/http/detail/chunked_decoder.hpp>
#include <gyre/http/detail/message_parser.hpp>
#include <gyre/http/media_type.hpp>
#include <gyre/http/multipart.hpp>
#include <gyre/http/percent_encoding.hpp>
#include <gyre/http/query.hpp>
#include <gyre/http/range.hpp>
#include <gyre/http/request_target.hpp>
#include <gyre/http/server_sent_event.hpp>
#include <gyre/http/url.hpp>
#include <gyre/testing/allocations.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace http_allocation_test {
namespace {

using namespace gyre::http;
using gyre::testing::allocation_count;

// The allocations of the second call: the first may allocate memory that later ones reuse.
template <class Function>
std::size_t allocations_of_another(Function function) {
  function();
  const allocation_count during;
  function();
  return during.allocations();
}

constexpr std::string_view request =
    "POST /files/a%20b?page=2&name=J%C3%BCrgen HTTP/1.1\r\nHost: example.org:8080\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\n"
    "Cookie: theme=dark; session=31d4; other=0123456789abcdef0123456789abcdef\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

TEST(HttpAllocation, ParsingAHeadAllocatesNothing) {
  detail::head_scanner scanner;
  detail::request_head head;
  const std::size_t count = allocations_of_another([&] {
    ASSERT_EQ(scanner.find_end(request.substr(0, 100), {}), 0U);
    ASSERT_EQ(scanner.find_end(request, {}), request.size());
    ASSERT_EQ(detail::parse_request_head(request, {}, head), errc{});
  });
  EXPECT_EQ(count, 0U);

  std::string response =
      "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\n";
  detail::response_head answer;
  EXPECT_EQ(allocations_of_another([&] {
              ASSERT_EQ(detail::parse_response_head(response, {}, "GET", answer), errc{});
            }),
            0U);
}

TEST(HttpAllocation, DecodingChunksAllocatesNothing) {
  std::vector<detail::field_view> trailers;
  EXPECT_EQ(allocations_of_another([&] {
              trailers.clear();
              gyre::io::input in{std::string_view("5;a=\"b\"\r\nhello\r\n0\r\nX: y\r\n\r\n")};
              detail::chunked_decoder decoder;
              ASSERT_EQ(decoder.next(in, {}, trailers)->data.size(), 5U);
              ASSERT_TRUE(decoder.next(in, {}, trailers)->is_last);
              ASSERT_EQ(trailers.size(), 1U);
            }),
            0U);
}

TEST(HttpAllocation, ReadingViewsAllocatesNothing) {
  std::array<char, 64> memory{};
  EXPECT_EQ(allocations_of_another([&] {
              const auto target = request_target::parse(method::post, "/files/a%20b?page=2&x=%20");
              ASSERT_TRUE(target);
              const auto pairs = query::parse(target->query());
              ASSERT_TRUE(pairs && pairs->find("x") && pairs->contains("page"));
              ASSERT_TRUE(percent_decode(target->path(), memory));
              ASSERT_TRUE(decodes_to("a%20b", "a b") && is_percent_encoded("a%20b"));
            }),
            0U);
  EXPECT_EQ(
      allocations_of_another([&] {
        const cookies sent("theme=dark; session=31d4; other=0123456789abcdef0123456789abcdef");
        ASSERT_EQ(sent.get("session"), "31d4");
        std::size_t pairs = 0;
        for (const cookie_pair& each : sent) pairs += each.name.empty() ? 0 : 1;
        ASSERT_EQ(pairs, 3U);
      }),
      0U);
  EXPECT_EQ(allocations_of_another([&] {
              const auto type = media_type::parse("text/html; charset=\"utf-8\"; x=y");
              ASSERT_TRUE(type && type->is("TEXT/html"));
              ASSERT_EQ(media_type_of("a/b.png"), "image/png");
            }),
            0U);
}

TEST(HttpAllocation, DataOfAMultipartBodyAllocateNothing) {
  multipart_reader reader("b");
  gyre::io::input head{
      std::string_view("--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n")};
  ASSERT_EQ(reader.next(head)->kind, multipart_event::part);
  EXPECT_EQ(allocations_of_another([&] {
              gyre::io::input data{std::string_view("data\r\n--not\r\n-and data\r\n--")};
              std::size_t size = 0;
              while (!data.empty()) size += reader.next(data)->bytes.size();
              ASSERT_GE(size, 22U);
            }),
            0U);
}

TEST(HttpAllocation, EventsReuseTheirMemory) {
  server_sent_event_reader reader;
  const std::string text = "event: tick\nid: 42\ndata: " + std::string(100, 'x') + "\n\n";
  EXPECT_EQ(allocations_of_another([&] {
              gyre::io::input piece{std::string_view(text)};
              ASSERT_TRUE(reader.next(piece).value());
              ASSERT_EQ(reader.event().data.size(), 100U);
            }),
            0U);
}

}  // namespace
}  // namespace http_allocation_test
