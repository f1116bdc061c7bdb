// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/server_sent_event.hpp>

#include <gyre/base/detail/duration_check.hpp>
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/format_error.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>

namespace gyre::http {
namespace {

void append_field(std::string& output, std::string_view name, std::string_view value) {
  output.append(name).append(": ").append(value) += '\n';
}

// Appends each line of the text as a field; an empty text is one line.
void append_lines(std::string& output, std::string_view name, std::string_view text) {
  while (true) {
    const std::size_t end = text.find_first_of("\r\n");
    append_field(output, name, text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + (text.substr(end).starts_with("\r\n") ? 2 : 1));
  }
}

bool is_one_line(std::string_view text) noexcept {
  return text.find_first_of("\r\n") == std::string_view::npos;
}

}  // namespace

void append_event(std::string& output, const server_sent_event& event) {
  if (!is_one_line(event.event)) {
    throw std::invalid_argument("gyre::http::append_event: the type has a line end");
  }
  if (event.id && (!is_one_line(*event.id) || event.id->contains('\0'))) {
    throw std::invalid_argument("gyre::http::append_event: the id has a line end or a zero byte");
  }
  if (event.retry) {
    gyre::detail::require_not_negative(*event.retry, "gyre::http::append_event: retry");
  }
  if (!event.event.empty()) append_field(output, "event", event.event);
  if (event.id) append_field(output, "id", *event.id);
  if (event.retry) {
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(*event.retry);
    append_field(output, "retry", std::to_string(time.count()));
  }
  if (!event.data.empty() || !event.event.empty()) append_lines(output, "data", event.data);
  output += '\n';
}

void append_comment(std::string& output, std::string_view text) {
  append_lines(output, "", text);
  output += '\n';
}

// Lines end in CR, LF or CR LF. A CR ends its line at once, because the LF may never be received.
std::expected<bool, std::error_code> server_sent_event_reader::next(io::input& piece) {
  if (std::exchange(was_dispatched_, false)) {
    data_.clear();
    type_.clear();
    retry_of_event_.reset();
  }
  while (!is_too_long_ && !piece.empty()) {
    if (std::exchange(is_after_cr_, false) && piece.text().front() == '\n') {
      piece.consume(1);
      continue;
    }
    const std::string_view text = piece.text();
    const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
    if (end + line_.size() + data_.size() > max_size_) {
      is_too_long_ = true;
      break;
    }
    line_ += text.substr(0, end);
    if (end == text.size()) {
      piece.consume_all();
      break;
    }
    is_after_cr_ = text[end] == '\r';
    piece.consume(end + 1);
    if (read_line()) return true;
  }
  if (is_too_long_) return std::unexpected(make_error_code(format_errc::too_long));
  return false;
}

// Reads the complete line in line_ and returns whether it ended an event.
bool server_sent_event_reader::read_line() {
  std::string_view line = line_;
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (std::exchange(is_first_line_, false) && line.starts_with(byte_order_mark)) {
    line.remove_prefix(byte_order_mark.size());
  }
  if (line.empty()) {
    line_.clear();
    return dispatch();
  }
  std::string_view value = line;
  const std::string_view name = detail::take_until(value, ':');
  if (value.starts_with(' ')) value.remove_prefix(1);
  read_field(name, value);
  line_.clear();
  return false;
}

void server_sent_event_reader::read_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    data_.append(value) += '\n';
  } else if (name == "event") {
    type_ = value;
  } else if (name == "id") {
    if (!value.contains('\0')) pending_id_ = value;
  } else if (name == "retry" && !value.empty() && std::ranges::all_of(value, detail::is_digit)) {
    constexpr std::uint64_t max_milliseconds = std::numeric_limits<std::int64_t>::max();
    const auto number = gyre::detail::parse_decimal<std::uint64_t>(value);
    if (number && *number <= max_milliseconds) {
      retry_ = retry_of_event_ = std::chrono::milliseconds(static_cast<std::int64_t>(*number));
    }
  }
}

bool server_sent_event_reader::dispatch() {
  id_ = pending_id_;
  if (data_.empty()) {
    type_.clear();
    retry_of_event_.reset();
    return false;
  }
  data_.pop_back();
  event_ = {.data = data_,
            .event = type_.empty() ? std::string_view("message") : std::string_view(type_),
            .id = id_,
            .retry = retry_of_event_};
  was_dispatched_ = true;
  return true;
}

}  // namespace gyre::http
