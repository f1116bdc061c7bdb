// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of http's headers about texts, bodies and routes.
#include <gyre/gyre.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

// clang-format off: the examples stand as in the comments
namespace http_test {
namespace {

using namespace std::chrono_literals;
using gyre::http::condition_outcome;
using gyre::http::format_errc;
using gyre::http::method;
using gyre::http::range_outcome;

// The examples are parts of handlers: coroutines that answer by a text.
struct answer {
  struct promise_type {
    std::string text;
    answer get_return_object() { return {this}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(std::string value) { text = std::move(value); }
    void unhandled_exception() { throw; }
  };
  promise_type* promise;

  std::string take() {
    std::string text = std::move(promise->text);
    std::coroutine_handle<promise_type>::from_promise(*promise).destroy();
    return text;
  }
};

std::string bad_request(const std::error_code& error) { return "400 " + error.message(); }
std::string bad_request() { return "400"; }

// gyre/http/compression.hpp
void compress(std::span<const std::byte> body, gyre::io::buffer& packed) {
  gyre::http::compressor pack(gyre::http::content_coding::gzip);
  pack.write(body, packed);
  pack.finish(packed);
}

answer decompress(gyre::http::content_coding coding, const gyre::io::buffer& packed,
                  gyre::io::buffer& body) {
  gyre::http::decompressor unpack(coding, {.max_output = 1 << 20});
  if (auto error = unpack.write(packed.bytes(), body)) co_return bad_request(error);
  if (!unpack.is_complete()) co_return bad_request(format_errc::incomplete);
  co_return "200";
}

TEST(HttpExamples, CompressionPacksAndUnpacks) {
  const std::string text(1000, 'a');
  gyre::io::buffer packed, body;
  compress(std::as_bytes(std::span(text)), packed);
  EXPECT_LT(packed.size(), 100U);
  EXPECT_EQ(decompress(gyre::http::content_coding::gzip, packed, body).take(), "200");
  EXPECT_EQ(body.text(), text);
}

// gyre/http/conditional.hpp
std::string send_body() { return "200"; }
std::string send_304() { return "304"; }
std::string send_412() { return "412"; }

answer answer_conditional(std::chrono::sys_seconds changed) {
  const gyre::http::validators now{.entity_tag = "\"v7\"", .last_modified = changed};
  switch (gyre::http::evaluate(method::get, {.if_none_match = "\"v7\""}, now)) {
    case condition_outcome::proceed: co_return send_body();
    case condition_outcome::not_modified: co_return send_304();
    case condition_outcome::precondition_failed: co_return send_412();
  }
  co_return "";
}

TEST(HttpExamples, ConditionalFindsAnUnmodifiedResource) {
  EXPECT_EQ(answer_conditional(std::chrono::sys_seconds(1s)).take(), "304");
}

// gyre/http/content_coding.hpp
std::string not_acceptable() { return "406"; }

answer negotiate() {
  using gyre::http::content_coding;
  auto coding = gyre::http::negotiate_coding("gzip, br;q=0.9, *;q=0");  // gzip
  if (!coding) co_return not_acceptable();  // not even identity is accepted
  co_return coding == content_coding::gzip ? "gzip" : "other";
}

TEST(HttpExamples, ContentCodingIsChosen) { EXPECT_EQ(negotiate().take(), "gzip"); }

// gyre/http/cookie.hpp
TEST(HttpExamples, CookiesAreReadAndSet) {
  const gyre::http::cookies sent("theme=dark; session=31d4");
  std::string_view session = sent.get("session").value_or("");
  EXPECT_EQ(session, "31d4");

  std::string header = gyre::http::set_cookie("session", "31d4").max_age(1h).to_string();
  EXPECT_TRUE(header.contains("Max-Age=3600")) << header;
}

// gyre/http/cookie_jar.hpp
TEST(HttpExamples, CookieJarSendsWhatItReceived) {
  const auto page = gyre::http::url::parse("https://example.org/a").value();
  gyre::http::cookie_jar jar;
  jar.receive(page, "session=31d4; Path=/; Secure");  // a header Set-Cookie of a response
  std::string header = jar.header_for(page);          // "session=31d4", for a header Cookie
  EXPECT_EQ(header, "session=31d4");
}

// gyre/http/date.hpp
std::string not_modified() { return "304"; }

answer answer_since(std::string_view since, std::chrono::sys_seconds modified) {
  std::array<char, gyre::http::date_size> memory;
  std::string_view date = gyre::http::format_date(modified, memory);
  if (gyre::http::parse_date(since) >= modified) co_return not_modified();
  co_return std::string(date);
}

TEST(HttpExamples, DatesAreWrittenAndRead) {
  const std::chrono::sys_seconds modified(784111777s);
  const std::string date = answer_since("", modified).take();
  EXPECT_EQ(date, "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(answer_since(date, modified).take(), "304");
}

// gyre/http/error.hpp
TEST(HttpExamples, ErrorHasAMessageAndAStatus) {
  unsigned answered = 0;
  const auto log = [&](const std::string& message, unsigned status) { answered = message.empty() ? 0 : status; };
  std::error_code error = gyre::http::errc::bad_host;
  log(error.message(), gyre::http::status_code_of(gyre::http::errc::bad_host));  // 400
  EXPECT_EQ(answered, 400U);
}

// gyre/http/form.hpp
TEST(HttpExamples, FormIsReadAndWritten) {
  auto form = gyre::http::form::parse("name=J%C3%BCrgen+K&page=2", {.max_pairs = 50});
  if (!form) throw std::system_error(form.error());
  std::string name(form->get("name").value_or("nobody"));   // "Jürgen K"
  std::string body = form->add("sent", "1+1").to_string();  // "…&sent=1%2B1"
  EXPECT_EQ(name, "Jürgen K");
  EXPECT_TRUE(body.ends_with("&sent=1%2B1")) << body;
}

// gyre/http/format_error.hpp
TEST(HttpExamples, FormatErrorSaysWhatIsWrong) {
  const std::string_view typed = "https://[";
  const auto server = gyre::http::url::parse(typed);
  if (!server) std::puts(server.error().message().c_str());
  EXPECT_EQ(server.error(), format_errc::bad_host);
}

// gyre/http/media_type.hpp
TEST(HttpExamples, MediaTypeHasParameters) {
  std::string used;
  const auto use = [&](std::string_view charset) { used = charset; };
  auto type = gyre::http::media_type::parse("text/html; charset=\"utf-8\"");
  if (type && type->is("text/html")) use(type->parameter("charset").value_or("utf-8"));
  std::string_view icon = gyre::http::media_type_of("favicon.ICO");  // "image/x-icon"
  EXPECT_EQ(used, "utf-8");
  EXPECT_EQ(icon, "image/x-icon");
}

// gyre/http/method.hpp
TEST(HttpExamples, MethodsAreNamed) {
  bool served = false;
  const auto serve = [&] { served = true; };
  using gyre::http::method;
  if (gyre::http::method_of("GET") == method::get) serve();
  gyre::http::method_set allowed{method::get, method::put};
  std::string header = allowed.to_string();  // "GET, PUT"
  EXPECT_TRUE(served);
  EXPECT_EQ(header, "GET, PUT");
}

// gyre/http/multipart.hpp
TEST(HttpExamples, MultipartReaderReadsAnUpload) {
  const std::string boundary = "b";
  struct { std::string bytes; void append(std::span<const std::byte> more) { bytes += gyre::io::input(more).text(); } } file;
  const auto open_for = [&](std::string_view name) { return decltype(file){std::string(name) + ':'}; };
  gyre::io::input piece(std::string_view("--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\ndata\r\n--b--"));
  gyre::http::multipart_reader reader(boundary);
  while (!piece.empty()) {  // an input with bytes of the body, as they came
    const auto event = reader.next(piece);
    if (!event) throw std::system_error(event.error());
    if (event->kind == gyre::http::multipart_event::part) file = open_for(reader.part().name);
    if (event->kind == gyre::http::multipart_event::data) file.append(event->bytes);
  }
  EXPECT_EQ(file.bytes, "f:data");
}

// gyre/http/multipart_writer.hpp
TEST(HttpExamples, MultipartWriterWritesAnUpload) {
  const std::string_view photo = "bytes";
  gyre::http::multipart_writer writer;
  writer.add("title", "Holidays").add_file("photo", "beach.jpg", "image/jpeg", photo);
  std::string body = writer.finish().take();
  std::string header = writer.content_type();  // multipart/form-data; boundary=…
  EXPECT_TRUE(body.contains("Holidays") && body.contains("bytes"));
  EXPECT_TRUE(header.ends_with(writer.boundary()));
}

// gyre/http/percent_encoding.hpp
TEST(HttpExamples, PercentEncodingIsDecoded) {
  std::string path = "/files/" + gyre::http::encode_component("50 % off");  // 50%20%25%20off
  std::optional<std::string> name = gyre::http::percent_decode("50%20%25%20off");
  if (!name) throw std::invalid_argument("a '%' without two digits");
  EXPECT_EQ(path, "/files/50%20%25%20off");
  EXPECT_EQ(name, "50 % off");
}

// gyre/http/query.hpp
TEST(HttpExamples, QueryHasPairs) {
  std::string logged;
  const auto log = [&](const std::string& name, const std::string& value) { logged += name + '=' + value + ';'; };
  const auto pairs = gyre::http::query::parse("name=J%C3%BCrgen+K&page=2");
  if (!pairs) throw std::system_error(pairs.error());
  std::string name = pairs->get("name").value_or("nobody");  // "Jürgen K"
  for (const auto& pair : *pairs) log(pair.decoded_name(), pair.decoded_value());
  EXPECT_EQ(name, "Jürgen K");
  EXPECT_EQ(logged, "name=Jürgen K;page=2;");
}

// gyre/http/range.hpp
std::string send_416(std::uint64_t size) { return "416 " + std::to_string(size); }
std::string send_whole() { return "200"; }

answer answer_ranges(std::uint64_t size) {
  std::string sent = "206";
  const auto send = [&](std::uint64_t first, std::uint64_t count) {
    sent += ' ' + std::to_string(first) + '+' + std::to_string(count);
  };
  const auto ranges = gyre::http::byte_ranges::parse("bytes=0-99,-50", size);
  if (ranges.outcome() == range_outcome::not_satisfiable) co_return send_416(size);
  if (ranges.outcome() == range_outcome::whole) co_return send_whole();
  for (const gyre::http::byte_range& part : ranges) send(part.first, part.size);
  co_return sent;
}

TEST(HttpExamples, RangesAreParts) {
  EXPECT_EQ(answer_ranges(1000).take(), "206 0+100 950+50");
  EXPECT_EQ(answer_ranges(0).take(), "200");
}

// gyre/http/request_target.hpp
answer answer_target() {
  auto target = gyre::http::request_target::parse(method::get, "/files/a%20b?page=2");
  if (!target) co_return bad_request();
  std::string_view path = target->path();    // "/files/a%20b"
  std::string_view query = target->query();  // "page=2"
  co_return std::string(path) + ' ' + std::string(query);
}

TEST(HttpExamples, RequestTargetHasPathAndQuery) {
  EXPECT_EQ(answer_target().take(), "/files/a%20b page=2");
}

// gyre/http/route_parameters.hpp, router.hpp
using handler = void (*)(std::string_view id);
std::string shown;
void show_user(std::string_view id) { shown = id; }
void send_file(std::string_view) {}

TEST(HttpExamples, RouterFindsAHandler) {
  gyre::http::basic_router<handler> routes;
  routes.add(method::get, "/users/{id}", show_user);
  routes.add(method::get, "/files/{path...}", send_file);
  auto match = routes.find(method::get, "/users/7");
  if (match) (*match.handler)(match.parameters.raw("id"));
  std::optional<std::string> user = match.parameters.get("id");  // decoded
  EXPECT_EQ(shown, "7");
  EXPECT_EQ(user, "7");
}

// gyre/http/metrics_text.hpp
TEST(HttpExamples, MetricsTextIsAPage) {
  const std::uint64_t orders = 3;
  const std::uint64_t sent = 2;
  const std::uint64_t refused = 1;
  const std::size_t carts = 7;
  const gyre::histogram took;
  const gyre::histogram paid;
  gyre::http::metrics_text text;
  text.add_counter("shop_orders_total", "Orders that were placed.", orders);
  text.add_counter("shop_mails_total", "Mails by their end.", sent, {{"end", "sent"}});
  text.add_counter("shop_mails_total", "Mails by their end.", refused, {{"end", "refused"}});
  text.add_gauge("shop_carts", "Carts that are not empty now.", carts);
  text.add_summary("shop_request_seconds", "Time until the response.", took);
  text.add_histogram("shop_payment_seconds", "Time of a payment.", paid);
  gyre::http::response page = text.response();
  EXPECT_TRUE(page.body().contains("\nshop_mails_total{end=\"refused\"} 1\n"));
}

// gyre/http/server_sent_event.hpp
TEST(HttpExamples, ServerSentEventsAreWrittenAndRead) {
  std::string shown_data;
  const auto show = [&](std::string_view data) { shown_data = data; };
  std::string text;
  gyre::http::append_event(text, {.data = "{\"price\":7}", .event = "tick", .id = "42"});
  gyre::io::input piece(text);
  gyre::http::server_sent_event_reader reader;
  while (reader.next(piece).value()) show(reader.event().data);
  EXPECT_EQ(shown_data, "{\"price\":7}");
}

// gyre/http/status.hpp
TEST(HttpExamples, StatusHasAReason) {
  bool retries = false;
  const auto retry_later = [&] { retries = true; };
  const auto response_status = gyre::http::status::service_unavailable;
  using gyre::http::status;
  std::string_view reason = gyre::http::reason_phrase(status::not_found);  // "Not Found"
  if (gyre::http::is_server_error(response_status)) retry_later();
  EXPECT_EQ(reason, "Not Found");
  EXPECT_TRUE(retries);
}

// gyre/http/url.hpp
TEST(HttpExamples, UrlHasParts) {
  auto server = gyre::http::url::parse("https://example.org:8443/a?page=2").value();
  std::string_view host = server.host();       // "example.org"
  std::uint16_t port = server.port();          // 8443
  std::string target = server.target();        // "/a?page=2"
  auto next = server.resolve("../b").value();  // https://example.org:8443/b
  EXPECT_EQ(host, "example.org");
  EXPECT_EQ(port, 8443);
  EXPECT_EQ(target, "/a?page=2");
  EXPECT_EQ(next.to_string(), "https://example.org:8443/b");
}

}  // namespace
}  // namespace http_test
