// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/response_head.hpp>
#include <gyre/http/detail/server_connection.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/io/error.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/from_callback.hpp>
#include <gyre/task/schedule.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

// A longer body is sent from where it is, instead of being copied behind the head.
constexpr std::size_t most_copied = std::size_t{4} << 10;
// A handler gives way to other connections then, as a fast peer may never make it wait.
constexpr std::size_t most_in_a_row = std::size_t{256} << 10;

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
  const bool is_head = request_.method_ == method::head;
  if (result.source_ != nullptr && result.source_->which == body_source::kind::upgrade &&
      (!head_.framing.upgrade || body_open_)) {
    result = response(status::upgrade_required).set("Upgrade", *result.fields_.get("Upgrade"));
  }
  if (to_number(result.status()) < 200 && to_number(result.status()) != 101) {
    // The client would wait for another answer, and take the next one for it.
    report(std::make_exception_ptr(
        std::logic_error("http::server: an answer with a status below 200")));
    result = response(status::internal_server_error);
  }
  if (result.source_ != nullptr && !has_whole_file(*result.source_)) {
    result = response(status::internal_server_error);
  }
  status_ = result.status();
  continue_due_ = false;  // from here on it would stand in the answer
  const bool is_upgrade =
      result.source_ != nullptr && result.source_->which == body_source::kind::upgrade;
  const bool is_stream =
      result.source_ != nullptr && result.source_->which == body_source::kind::stream;
  chunked_ = is_stream && request_.minor_version_ != 0;
  // A body that is not read to its end is cut off together with the connection.
  if (body_open_ || connection_->must_close() || (is_stream && !chunked_ && !is_head)) {
    close_ = true;
  }

  head_writer head(out, result.fields_.text().size());
  head.put_status_line(status_);
  if (!put_fields(head, result.fields_)) head.put(shard_->date_line(connection_->present()));

  const std::string_view body = result.body();
  const bool has_body = !never_has_body(status_);
  if (is_upgrade) {
    head.put("Connection: upgrade\r\n\r\n");
  } else {
    if (chunked_ && has_body) {
      head.put("Transfer-Encoding: chunked\r\n");
    } else if (!is_stream && has_body) {
      head.put("Content-Length: ");
      head.put_number(result.source_ != nullptr ? result.source_->count : body.size());
      head.put("\r\n");
    }
    if (close_) {
      head.put("Connection: close\r\n");
    } else if (request_.minor_version_ == 0) {
      head.put("Connection: keep-alive\r\n");
    }
    head.put("\r\n");
  }
  head.finish();

  if (result.source_ != nullptr) return send_source(result, is_head || !has_body);
  if (!is_head && has_body) {
    sent_body_ = body.size();
    if (body.size() > most_copied) {
      connection_->flush_with(std::as_bytes(std::span(body)));
    } else {
      out.append(body);
    }
  }
  finish();
}

// Returns whether the Date is among them. The framing is the server's.
bool exchange::put_fields(head_writer& head, const http::fields& fields) {
  constexpr std::string_view date = "Date", connection = "Connection", length = "Content-Length",
                             coding = "Transfer-Encoding";
  if (!fields.may_have_names_of({date.size(), connection.size(), length.size(), coding.size()})) {
    if (!fields.empty()) head.put(fields.text());
    return false;
  }
  bool has_date = false;
  for (const field& each : fields) {
    if (equals_ignoring_case(each.name, connection)) {
      close_ = close_ || list_has_word(each.value, "close");
      continue;
    }
    if (equals_ignoring_case(each.name, length) || equals_ignoring_case(each.name, coding)) {
      continue;
    }
    has_date = has_date || equals_ignoring_case(each.name, date);
    head.put(std::string_view(each.name.data(), each.name.size() + each.value.size() + 4));
  }
  return has_date;
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
  if (source.which == body_source::kind::stream) return start_stream(std::move(source.write));
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
  stream_.emplace(upgraded_ ? run_(writer) : write_(writer));
  gyre::detail::task_access::state(*stream_).start(*this);
}

void exchange::start_upgrade(move_only_function<task<>(upgraded_connection&)> run) {
  upgraded_ = true;
  close_ = true;
  body_open_ = !connection_->must_close();  // the bytes that follow
  head_.framing.body = body_kind::length;
  remaining_ = std::numeric_limits<std::uint64_t>::max();
  run_ = std::move(run);
  connection_->want_body();
  start_stream({});
}

void exchange::conclude_stream() noexcept {
  const std::exception_ptr error = gyre::detail::task_access::state(*stream_).take_error();
  stream_.reset();
  try {
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
