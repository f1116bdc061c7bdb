// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/response_head.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/schedule.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

// A longer body is sent from where it is, instead of being copied behind the head.
constexpr std::size_t most_copied = std::size_t{4} << 10;
// A handler gives way to other connections then, as a fast peer may never make it wait.
constexpr std::size_t most_in_a_row = std::size_t{256} << 10;

constexpr std::string_view connection_field = "Connection";
constexpr std::string_view upgrade_field = "Upgrade";

// The connection options that the server decides on; nor may a proxy drop the framing.
constexpr bool is_own_option(std::string_view option) noexcept {
  for (const std::string_view own :
       {"close", "keep-alive", "upgrade", "content-length", "transfer-encoding"}) {
    if (equals_ignoring_case(option, own)) return true;
  }
  return false;
}

// Whether reading the request's body has thrown it: an error of the client's.
bool is_of_body(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& known) {
    return known.code().category() == http_category();
  } catch (...) {
    return false;
  }
}

}  // namespace

void exchange::send(response& result) {
  io::buffer& out = connection_->output();
  if (!may_be_sent(result)) {
    report(std::make_exception_ptr(std::logic_error(
        "http::server: an answer with a status below 200 that is no response::upgrade()")));
    result = response(status::internal_server_error);
  }
  using kind = body_source::kind;
  if (is_of(result, kind::upgrade) && (body_open_ || !offers_protocols_of(result))) {
    result = response(status::upgrade_required).set("Upgrade", *result.fields_.get("Upgrade"));
  }
  if (result.source_ != nullptr && !has_whole_file(*result.source_)) {
    result = response(status::internal_server_error);
  }
  status_ = result.status();
  continue_due_ = false;  // from here on it would stand in the answer
  upgraded_ = is_of(result, kind::upgrade);
  const bool is_head = request_.method_ == method::head;
  const bool has_framing = !never_has_body(status_);
  // A 205 is framed, and empty (RFC 9110, 15.3.6).
  const bool has_content = has_framing && status_ != status::reset_content;
  const bool is_stream = is_of(result, kind::stream) && has_content;
  const bool is_endless = is_stream && !result.source_->length;
  chunked_ = is_endless && request_.minor_version_ != 0;
  // A body that is not read to its end is cut off together with the connection.
  if (body_open_ || connection_->must_close() || (is_endless && !chunked_ && !is_head)) {
    close_ = true;
  }

  head_writer head(out, result.fields_.text().size());
  head.put_status_line(status_);
  const field_traits traits = put_fields(head, result.fields_);
  if (!traits.has_date) head.put(shard_->date_line(connection_->present()));

  const std::string_view body = result.body();
  if (chunked_) {
    head.put("Transfer-Encoding: chunked\r\n");
  } else if (has_framing && !is_endless) {
    std::optional<std::uint64_t> length = body.size();
    if (result.source_ != nullptr) length = result.source_->length.value_or(result.source_->count);
    // A handler of HEAD may know the length of a body without having it. A length that it does not
    // know must not be told (RFC 9110, 8.6).
    if (is_head && body.empty() && result.source_ == nullptr) length = traits.length;
    if (!has_content) length = 0;
    if (length) {
      head.put("Content-Length: ");
      head.put_number(*length);
      head.put("\r\n");
    }
  }
  put_connection(head, result.fields_, traits);
  head.put("\r\n");
  head.finish();

  if (result.source_ != nullptr) return send_source(result, is_head || !has_content);
  if (!is_head && has_content) {
    sent_body_ = body.size();
    if (body.size() > most_copied) {
      connection_->flush_with(std::as_bytes(std::span(body)));
    } else {
      out.append(body);
    }
  }
  finish();
}

// Whether its status is final, or that of an upgrade. A client would wait for another answer after
// an interim one, and take the next one for it.
bool exchange::may_be_sent(const response& result) noexcept {
  const bool switches = result.status() == status::switching_protocols;
  if (is_of(result, body_source::kind::upgrade)) {
    return switches && result.fields_.contains(upgrade_field);
  }
  return !is_informational(result.status());
}

// Whether the client has offered all protocols that the response switches to (RFC 9110, 7.8).
bool exchange::offers_protocols_of(const response& result) const noexcept {
  if (!head_.framing.upgrade) return false;
  const auto is_offered = [this](std::string_view protocol) {
    return std::ranges::any_of(request_.fields_, [&](const field& each) {
      return equals_ignoring_case(each.name, upgrade_field) && list_has_word(each.value, protocol);
    });
  };
  for (const field& each : result.fields_) {
    if (!equals_ignoring_case(each.name, upgrade_field)) continue;
    std::string_view protocols = each.value;
    while (!protocols.empty()) {
      const std::string_view protocol = trim(take_until(protocols, ','));
      if (!protocol.empty() && !is_offered(protocol)) return false;
    }
  }
  return true;
}

bool exchange::is_of(const response& result, body_source::kind which) noexcept {
  return result.source_ != nullptr && result.source_->which == which;
}

// Puts the handler's fields, except those that are the server's: the framing and Connection.
exchange::field_traits exchange::put_fields(head_writer& head, const http::fields& fields) {
  constexpr std::string_view date = "Date", length = "Content-Length", coding = "Transfer-Encoding";
  field_traits traits;
  if (!fields.may_have_names_of({date.size(), connection_field.size(), length.size(), coding.size(),
                                 upgrade_field.size()})) {
    if (!fields.empty()) head.put(fields.text());
    return traits;
  }
  for (const field& each : fields) {
    if (equals_ignoring_case(each.name, connection_field)) {
      traits.has_connection = true;
      close_ = close_ || list_has_word(each.value, "close");
      traits.has_upgrade = traits.has_upgrade || list_has_word(each.value, upgrade_field);
      continue;
    }
    if (equals_ignoring_case(each.name, length)) {
      traits.length = gyre::detail::parse_decimal<std::uint64_t>(each.value);
      continue;
    }
    if (equals_ignoring_case(each.name, coding)) continue;
    traits.has_upgrade = traits.has_upgrade || equals_ignoring_case(each.name, upgrade_field);
    traits.has_date = traits.has_date || equals_ignoring_case(each.name, date);
    head.put(std::string_view(each.name.data(), each.name.size() + each.value.size() + 4));
  }
  return traits;
}

// One field with the handler's connection options (RFC 9110, 7.6.1), and the server's.
void exchange::put_connection(head_writer& head, const http::fields& fields, field_traits traits) {
  bool is_first = true;
  // The handler's options must not take more room than its fields.
  const auto put = [&](std::string_view option, std::string_view separator = ", ") {
    head.put(std::exchange(is_first, false) ? "Connection: " : separator);
    head.put(option);
  };
  if (traits.has_connection) {
    for (const field& each : fields) {
      if (!equals_ignoring_case(each.name, connection_field)) continue;
      std::string_view options = each.value;
      while (!options.empty()) {
        const std::string_view option = trim(take_until(options, ','));
        if (is_token(option) && !is_own_option(option)) put(option, ",");
      }
    }
  }
  if (traits.has_upgrade) put("upgrade");
  if (close_ && !upgraded_) {
    put("close");
  } else if (request_.minor_version_ == 0) {
    put("keep-alive");
  }
  if (!is_first) head.put("\r\n");
}

// Before the head promises its bytes. It may still become shorter while it is sent.
bool exchange::has_whole_file(const body_source& source) noexcept {
  if (source.which != body_source::kind::file) return true;
  try {
    net::tcp_connection::check_file(source.file.get(), source.offset, source.count);
    return true;
  } catch (...) {
    report(std::current_exception());
    return false;
  }
}

void exchange::send_source(response& result, bool head_only) {
  body_source& source = *result.source_;
  if (source.which == body_source::kind::upgrade) return start_upgrade(std::move(source.run));
  if (head_only) return finish();
  if (source.which == body_source::kind::stream) {
    unwritten_ = source.length;
    return start_stream(std::move(source.write));
  }
  connection_->flush();
  if (source.count != 0) {
    sent_body_ = source.count;
    connection_->tcp().send_file(std::move(source.file), source.offset, source.count);
  }
  finish();
}

void exchange::start_stream(move_only_function<task<>(body_writer&)> write) {
  connection_->flush();
  write_ = std::move(write);
  upgraded_connection& writer = writer_.emplace(*this);
  finished = [](task_context& self) noexcept -> std::coroutine_handle<> {
    static_cast<exchange&>(self).coroutine_ended();
    return std::noop_coroutine();
  };
  ended_ = false;
  record_if_asked();
  stream_.emplace(upgraded_ ? run_(writer) : write_(writer));
  gyre::detail::task_access::state(*stream_).start(*this);
}

void exchange::start_upgrade(move_only_function<task<>(upgraded_connection&)> run) {
  close_ = true;
  body_open_ = !connection_->must_close();  // the bytes that follow
  head_.framing.body = body_kind::length;
  remaining_ = std::numeric_limits<std::uint64_t>::max();
  run_ = std::move(run);
  connection_->want_body();
  start_stream({});
}

void exchange::conclude_stream() noexcept {
  std::exception_ptr error = gyre::detail::task_access::state(*stream_).take_error();
  stream_.reset();
  try {
    if (!error && unwritten_.value_or(0) != 0) {
      error = std::make_exception_ptr(std::length_error("http::response::stream: the body ended " +
                                                        std::to_string(*unwritten_) +
                                                        " bytes before its length"));
    }
    if (error) {
      if (!is_of_body(error)) report(error);
      close_ = true;
      // A client must not take the part for the whole.
      if (!upgraded_) connection_->tcp().abort();
    } else if (chunked_) {
      connection_->output().append("0\r\n");
      connection_->output().append(writer_->trailers_.text());
      connection_->output().append("\r\n");
    }
  } catch (...) {
    connection_->tcp().abort();
  }
  finish();
}

void exchange::on_low_water() { wake(writer_waits_); }

void exchange::send_chunk(std::span<const std::byte> bytes) {
  net::tcp_connection& to = connection_->tcp();
  if (!chunked_) {
    to.send(bytes);
    return;
  }
  std::array<char, 18> head;
  char* end = std::to_chars(head.data(), head.data() + 16, bytes.size(), 16).ptr;
  *end++ = '\r';
  *end++ = '\n';
  const std::string_view size(head.data(), static_cast<std::size_t>(end - head.data()));
  to.send({std::as_bytes(std::span(size)), bytes, std::as_bytes(std::span("\r\n", 2))});
}

task<> exchange::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return;
  const auto check = [this] {
    if (connection_ == nullptr || !connection_->tcp().can_send()) {
      throw std::system_error(make_error_code(io::errc::closed), "http::body_writer::write");
    }
  };
  check();
  if (unwritten_) {
    if (bytes.size() > *unwritten_) {
      throw std::length_error("http::body_writer::write: more than the length of the response");
    }
    *unwritten_ -= bytes.size();
  }
  sent_body_ += bytes.size();
  if (request_.method_ == method::head && !upgraded_) co_return;
  connection_->flush();
  send_chunk(bytes);
  check();
  sent_in_a_row_ += bytes.size();
  const bool must_wait =
      connection_->tcp().pending_output() >= shard_->core().options.tcp.connections.high_water;
  if (!must_wait && sent_in_a_row_ < most_in_a_row) co_return;
  sent_in_a_row_ = 0;
  if (!must_wait) {
    co_await yield();
    check();
    co_return;
  }
  if (writer_waits_) {
    throw std::system_error(make_error_code(io::errc::busy), "http::body_writer::write");
  }
  auto waiting = from_callback<void>(
      [this](completion<void> done) { writer_waits_.emplace(std::move(done)); });
  struct forget {
    exchange* self;
    ~forget() { self->writer_waits_.reset(); }
  } const guard{this};
  co_await std::move(waiting);
  check();
}

}  // namespace gyre::http::detail
