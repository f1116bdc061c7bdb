// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/response_reader.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/error.hpp>
#include <gyre/task/as_result.hpp>

#include <algorithm>

namespace gyre::http::detail {
namespace {

constexpr const char* reading_head = "reading the head of the response";

}  // namespace

response_reader::response_reader(client_connection& from, const request_clock& clock,
                                 const client_options& options, std::string_view method)
    : from_(from),
      clock_(clock),
      between_bytes_(options.timeouts.between_bytes),
      most_interim_(options.limits.interim_responses),
      limits_{.start_line = options.limits.start_line,
              .fields = options.limits.fields,
              .field_count = options.limits.field_count},
      method_(method) {}

task<bool> response_reader::read_more(steady_time expiry, const char* phase) {
  auto reading = as_result(clock_.wait(from_.stream().read(from_.in), expiry, phase));
  const auto count = co_await std::move(reading);
  if (!count) std::rethrow_exception(clock_.named(count.error()));
  begun_ = begun_ || *count != 0;
  ended_ = *count == 0;
  co_return !ended_;
}

bool response_reader::take_head() {
  const std::string_view text = from_.in.text();
  const auto size = scanner_.find_end(text, limits_);
  if (!size) clock_.fail(size.error(), reading_head);
  if (*size == 0) return false;
  head_text_ = text.substr(0, *size);
  from_.in.consume(*size);
  scanner_.reset();
  const errc error = parse_response_head(head_text_, limits_, method_, head_);
  if (error != errc{}) clock_.fail(error, reading_head);
  remaining_ = head_.framing.length;
  return true;
}

task<> response_reader::read_head(steady_time first_byte) {
  while (from_.in.empty() || !take_head()) {
    const bool waits_for_first = from_.in.empty();
    const steady_time expiry = waits_for_first ? first_byte : end_of_gap();
    task<bool> reading =
        read_more(expiry, waits_for_first ? "waiting for the response" : reading_head);
    const bool came = co_await std::move(reading);
    if (!came) clock_.fail(begun_ ? errc::truncated : errc::no_response, reading_head);
  }
}

task<> response_reader::read_final_head(steady_time first_byte) {
  for (;;) {
    task<> reading = read_head(first_byte);
    co_await std::move(reading);
    if (head_.status >= 200) co_return;
    count_interim();
  }
}

void response_reader::count_interim() {
  if (head_.status == 101 || ++interim_ > most_interim_) {
    clock_.fail(errc::unexpected_status, "status " + std::to_string(head_.status));
  }
}

std::span<const std::byte> response_reader::take_of_length() {
  const std::size_t count = static_cast<std::size_t>(
      std::min<std::uint64_t>(remaining_, static_cast<std::uint64_t>(from_.in.size())));
  remaining_ -= count;
  return from_.in.take(count);
}

// The bytes that have come already; nothing: more must come, or the body is complete.
std::optional<std::span<const std::byte>> response_reader::take_piece() {
  std::span<const std::byte> piece;
  switch (head_.framing.body) {
    case body_kind::none: complete_ = true; break;
    case body_kind::length:
      complete_ = remaining_ == 0;
      piece = take_of_length();
      break;
    case body_kind::until_close: piece = from_.in.take(from_.in.size()); break;
    case body_kind::chunked: {
      const auto next = chunks_.next(from_.in, limits_, trailers_);
      if (!next) clock_.fail(next.error(), reading_body);
      piece = next->data;
      complete_ = next->is_last;
      if (complete_) keep_trailers();
      break;
    }
  }
  if (piece.empty()) return std::nullopt;
  return piece;
}

task<std::optional<std::span<const std::byte>>> response_reader::next_piece() {
  while (!complete_) {
    if (const auto piece = take_piece()) co_return piece;
    if (complete_) break;
    task<bool> reading = read_more(end_of_gap(), reading_body);
    const bool came = co_await std::move(reading);
    if (came) continue;
    if (head_.framing.body != body_kind::until_close) clock_.fail(errc::truncated, reading_body);
    complete_ = true;
  }
  co_return std::nullopt;
}

task<bool> response_reader::wait_for_more() {
  if (ended_) co_return false;
  if (!from_.in.empty()) co_return true;
  task<bool> reading = read_more(steady_time::max(), "sending the body");
  const bool came = co_await std::move(reading);
  co_return came;
}

// They are views into the connection's memory.
void response_reader::keep_trailers() {
  std::size_t size = 0;
  for (const field& each : trailers_) size += each.name.size() + each.value.size();
  trailer_text_.reserve(size);
  const auto keep = [this](std::string_view text) {
    const std::size_t begin = trailer_text_.size();
    trailer_text_ += text;
    return std::string_view(trailer_text_).substr(begin);
  };
  for (field& each : trailers_) each = {.name = keep(each.name), .value = keep(each.value)};
}

std::optional<std::chrono::seconds> response_reader::idle_time_of_server() const noexcept {
  std::optional<std::chrono::seconds> shortest;
  for (const field& each : head_.fields) {
    if (!equals_lower(each.name, "keep-alive")) continue;
    for (std::string_view list = each.value; !list.empty();) {
      std::string_view value = take_until(list, ',');
      const std::string_view name = trim(take_until(value, '='));
      const auto seconds = gyre::detail::parse_decimal<std::uint32_t>(trim(value));
      if (!equals_lower(name, "timeout") || !seconds) continue;
      const std::chrono::seconds kept(*seconds - std::min(*seconds, 1U));
      shortest = std::min(shortest.value_or(kept), kept);
    }
  }
  return shortest;
}

std::optional<std::uint64_t> response_reader::content_length() const noexcept {
  if (head_.framing.body != body_kind::length) return std::nullopt;
  return head_.framing.length;
}

void response_reader::hide_content_coding() {
  std::erase_if(head_.fields, [](const field& each) {
    return equals_lower(each.name, "content-encoding") || equals_lower(each.name, "content-length");
  });
}

}  // namespace gyre::http::detail
