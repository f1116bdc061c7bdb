// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/request_sender.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/percent_encoding.hpp>
#include <gyre/task/as_result.hpp>

#include <algorithm>
#include <array>
#include <charconv>

namespace gyre::http::detail {
namespace {

constexpr std::size_t most_small = std::size_t{16} << 10;

// Fields that the client writes itself.
constexpr std::array<std::string_view, 10> own_fields{
    "connection", "content-length",    "expect",          "host", "keep-alive", "te", "trailer",
    "upgrade",    "transfer-encoding", "proxy-connection"};

bool is_own(std::string_view name) noexcept {
  return std::ranges::any_of(own_fields,
                             [&](std::string_view each) { return equals_lower(name, each); });
}

}  // namespace

bool asks_for_close(const http::fields& request) noexcept {
  return std::ranges::any_of(request, [](const field& each) {
    return equals_lower(each.name, "connection") && list_has_word(each.value, "close");
  });
}

std::string basic_credentials(std::string_view user_info) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string plain = percent_decode(user_info).value_or(std::string(user_info));
  if (!user_info.contains(':')) plain += ':';
  std::string encoded = "Basic ";
  for (std::size_t at = 0; at < plain.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, plain.size() - at);
    unsigned bits = 0;
    for (std::size_t each = 0; each != 3; ++each) {
      const auto byte = each < count ? static_cast<unsigned char>(plain[at + each]) : 0U;
      bits = bits << 8U | byte;
    }
    for (std::size_t each = 0; each != 4; ++each) {
      encoded += each <= count ? digits[bits >> (18 - 6 * each) & 63U] : '=';
    }
  }
  return encoded;
}

bool request_sender::is_small() const noexcept {
  return !request_.is_streamed() && request_.body_.size() <= most_small;
}

void request_sender::write_framing() {
  const http::method method = request_.method_;
  const bool wants_length =
      method == http::method::post || method == http::method::put || method == http::method::patch;
  if (is_chunked()) {
    head_ += "Transfer-Encoding: chunked\r\n";
  } else if (has_body() || wants_length) {
    const std::uint64_t length =
        request_.is_streamed() ? *request_.stream_length_ : request_.body_.size();
    head_.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
  }
  if (expects_continue()) head_ += "Expect: 100-continue\r\n";
}

void request_sender::write_head(const request_route& route) {
  const url& to = request_.url_;
  const http::fields& fields = request_.fields_;
  head_.append(request_.method_text_).append(" ");
  if (route.absolute_form) head_.append(to.scheme()).append("://").append(to.authority());
  head_.append(to.target()).append(" HTTP/1.1\r\nHost: ");
  const auto host = fields.get("Host");
  head_.append(host ? std::string(*host) : to.authority()).append("\r\n");
  for (const auto& [name, value] : fields) {
    if (!is_own(name)) head_.append(name).append(": ").append(value).append("\r\n");
  }
  if (asks_for_close(fields)) head_ += "Connection: close\r\n";
  if (!fields.contains("User-Agent")) head_ += "User-Agent: gyre\r\n";
  if (!fields.contains("Accept")) head_ += "Accept: */*\r\n";
  if (route.accept_compressed) head_ += "Accept-Encoding: br, zstd, gzip\r\n";
  if (!to.user_info().empty() && !fields.contains("Authorization")) {
    head_.append("Authorization: ").append(basic_credentials(to.user_info())).append("\r\n");
  }
  if (!route.cookies.empty()) head_.append("Cookie: ").append(route.cookies).append("\r\n");
  if (!route.proxy_authorization.empty()) {
    head_.append("Proxy-Authorization: ").append(route.proxy_authorization).append("\r\n");
  }
  write_framing();
  head_ += "\r\n";
}

task<> request_sender::send_head() {
  const bool with_body = is_small() && !expects_continue();
  if (with_body) head_ += request_.body_;
  task<> writing = write(head_);
  co_await std::move(writing);
  whole_ = with_body;
}

task<> request_sender::send_body() {
  if (whole_) co_return;
  if (!request_.is_streamed()) {
    task<> writing = write(request_.body_);
    co_await std::move(writing);
    whole_ = true;
    co_return;
  }
  body_used_ = true;
  request_body_writer writer(*this);
  task<> streaming = request_.stream_(writer);
  co_await std::move(streaming);
  if (is_chunked()) {
    chunk_.assign("0\r\n").append(writer.trailers_.text()).append("\r\n");
    task<> ending = write(chunk_);
    co_await std::move(ending);
  } else if (written_ != *request_.stream_length_) {
    clock_.fail(errc::body_mismatch, "sending the body");
  }
  whole_ = true;
}

task<> request_sender::write_body(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return;
  if (!is_chunked()) {
    if (bytes.size() > *request_.stream_length_ - written_) {
      clock_.fail(errc::body_mismatch, "sending the body");
    }
    written_ += bytes.size();
    task<> writing = write(bytes);
    co_await std::move(writing);
    co_return;
  }
  char size[16];  // NOLINT(*-avoid-c-arrays): GCC 12 and arrays in coroutines
  const auto end = std::to_chars(size, size + sizeof size, bytes.size(), 16);
  chunk_.assign(size, end.ptr).append("\r\n");
  chunk_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()).append("\r\n");
  task<> writing = write(chunk_);
  co_await std::move(writing);
}

task<> request_sender::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto writing = as_result(
        clock_.wait(to_.stream().write_some(bytes), timeouts_.send, "sending the request"));
    const auto count = co_await std::move(writing);
    if (!count) std::rethrow_exception(clock_.named(count.error()));
    bytes = bytes.subspan(*count);
  }
}

}  // namespace gyre::http::detail
