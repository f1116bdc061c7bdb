// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_exchange.hpp>

#include <gyre/http/content_coding.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/format_error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/tls/error.hpp>

#include <algorithm>
#include <utility>

namespace gyre::http::detail {
namespace {

constexpr std::size_t unpacked_at_once = std::size_t{64} << 10;
constexpr std::size_t most_dropped = std::size_t{64} << 10;

}  // namespace

bool is_broken_connection(const std::exception_ptr& error) noexcept try {
  std::rethrow_exception(error);
} catch (const std::system_error& failure) {
  const std::error_code code = failure.code();
  return code == make_error_code(errc::no_response) || code == std::errc::broken_pipe ||
         code == make_error_code(tls::errc::truncated) || code == std::errc::connection_reset ||
         code == std::errc::connection_aborted || code == std::errc::not_connected;
} catch (...) {
  return false;
}

bool is_timeout(const std::exception_ptr& error) noexcept try {
  std::rethrow_exception(error);
} catch (const std::system_error& failure) {
  return failure.code() == make_error_code(errc::timed_out);
} catch (...) {
  return false;
}

client_exchange::client_exchange(client_lease connection, request_clock clock,
                                 const client_options& options, const client_request& request)
    : clock_(std::move(clock)),
      timeouts_(options.timeouts),
      limits_(options.limits),
      url_(request.url()),
      connection_(std::move(connection)),
      reused_(connection_.is_reused()),
      closes_(asks_for_close(request.fields())),
      reader_(*connection_, clock_, options, request.method_text()) {}

task<> client_exchange::run(client_request& request, const request_route& route) {
  request_sender sender(*connection_, clock_, request, timeouts_);
  sender.write_head(route);
  auto sending = as_result(send_and_read_head(sender));
  const auto done = co_await std::move(sending);
  sent_ = sender.is_whole();
  body_used_ = sender.is_body_used();
  if (!done) std::rethrow_exception(done.error());
  begin_body(route.accept_compressed);
}

task<> client_exchange::send_and_read_head(request_sender& sender) {
  auto sending = as_result(sender.send_head());
  const auto sent = co_await std::move(sending);
  std::exception_ptr error = sent ? nullptr : sent.error();
  if (!error && !sender.is_whole()) {
    task<bool> asking = must_send_body(sender);
    const bool must_send = co_await std::move(asking);
    if (!must_send) co_return;
    task<> racing = race_body(sender);
    co_await std::move(racing);
    co_return;
  }
  task<> reading = read_head_after(std::move(error));
  co_await std::move(reading);
}

// A server that refuses a request may answer, and close before it has read everything.
task<> client_exchange::read_head_after(std::exception_ptr send_error) {
  if (send_error && !is_broken_connection(send_error)) std::rethrow_exception(send_error);
  auto reading = as_result(reader_.read_final_head(clock_.expiry_of(timeouts_.first_byte)));
  const auto read = co_await std::move(reading);
  if (read) co_return;
  if (send_error && !reader_.has_begun()) std::rethrow_exception(send_error);
  std::rethrow_exception(read.error());
}

// False if the server has answered a request that expects "100 Continue".
task<bool> client_exchange::must_send_body(request_sender& sender) {
  if (!sender.expects_continue()) co_return true;
  for (;;) {
    auto waiting = as_result(reader_.read_head(clock_.expiry_of(timeouts_.expect_continue)));
    const auto came = co_await std::move(waiting);
    if (!came) {
      // A server may not know about it, and wait for the body.
      if (!is_timeout(came.error())) std::rethrow_exception(came.error());
      co_return true;
    }
    const unsigned status = reader_.head().status;
    if (status == 100) co_return true;
    if (status < 200) {
      reader_.count_interim();
      continue;
    }
    co_return false;
  }
}

task<std::exception_ptr> client_exchange::try_send_body(request_sender& sender) {
  auto sending = as_result(sender.send_body());
  const auto sent = co_await std::move(sending);
  co_return sent ? std::exception_ptr() : sent.error();
}

task<std::exception_ptr> client_exchange::try_read_head() {
  auto reading = as_result(reader_.read_final_head(steady_time::max()));
  const auto read = co_await std::move(reading);
  co_return read ? std::exception_ptr() : read.error();
}

task<> client_exchange::race_body(request_sender& sender) {
  auto race = when_any(try_send_body(sender), try_read_head());
  auto ended = co_await std::move(race);
  const std::optional<std::exception_ptr>& sent = std::get<0>(ended.values);
  const std::optional<std::exception_ptr>& read = std::get<1>(ended.values);
  if (read && !*read) co_return;  // the response is there, with or without the whole request
  std::exception_ptr error = sent ? *sent : nullptr;
  if (error && !is_broken_connection(error)) std::rethrow_exception(error);
  if (read) std::rethrow_exception(error && !reader_.has_begun() ? error : *read);
  task<> reading = read_head_after(std::move(error));
  co_await std::move(reading);
}

// --- The body ---

void client_exchange::begin_body(bool unpack) {
  if (!unpack || reader_.head().framing.body == body_kind::none) return;
  std::optional<content_coding> coding = content_coding::identity;
  std::size_t codings = 0;
  for (const field& each : reader_.fields()) {
    if (!equals_lower(each.name, "content-encoding")) continue;
    coding = content_coding_of(each.value);
    ++codings;
  }
  if (!coding || codings > 1) clock_.fail(errc::bad_content_coding, reading_body);
  if (*coding == content_coding::identity) return;
  decompressor_.emplace(*coding, decompression_options{.max_output = limits_.decompressed});
  reader_.hide_content_coding();
}

// The unpacked form of the bytes that have come; nothing: more are needed.
std::optional<std::span<const std::byte>> client_exchange::unpack() {
  if (unpacked_.empty()) unpacked_.resize(unpacked_at_once);
  while (!packed_.empty() || more_unpacked_) {
    const auto step = decompressor_->step(packed_, unpacked_);
    if (!step) {
      const bool is_limit = step.error() == make_error_code(format_errc::output_limit);
      clock_.fail(is_limit ? errc::body_too_large : errc::bad_content_coding, reading_body);
    }
    packed_ = packed_.subspan(step->consumed);
    more_unpacked_ = step->produced == unpacked_.size();
    if (step->produced != 0) return std::span(unpacked_).first(step->produced);
    if (step->consumed == 0 && !packed_.empty()) {
      clock_.fail(errc::bad_content_coding, reading_body);
    }
  }
  return std::nullopt;
}

task<std::optional<std::span<const std::byte>>> client_exchange::next_chunk() {
  if (!connection_.has_connection()) co_return std::nullopt;
  for (bool any = decompressor_ && decompressor_->output_size() != 0;; any = true) {
    if (decompressor_) {
      if (const auto unpacked = unpack()) co_return unpacked;
    }
    auto reading = reader_.next_piece();
    const auto piece = co_await std::move(reading);
    if (piece && !decompressor_) co_return piece;
    if (piece) {
      packed_ = *piece;
      continue;
    }
    // An empty body is one without a coding.
    if (decompressor_ && any && !decompressor_->is_complete()) {
      clock_.fail(errc::truncated, reading_body);
    }
    end();
    co_return std::nullopt;
  }
}

task<> client_exchange::read_body() {
  const std::uint64_t announced = reader_.content_length().value_or(0);
  if (announced > limits_.body) clock_.fail(errc::body_too_large, reading_body);
  body_.reserve(std::min<std::uint64_t>(announced, first_reservation));
  for (;;) {
    auto reading = next_chunk();
    const auto chunk = co_await std::move(reading);
    if (!chunk) co_return;
    if (chunk->size() > limits_.body - body_.size()) {
      clock_.fail(errc::body_too_large, reading_body);
    }
    body_.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
  }
}

task<> client_exchange::drop_body() {
  if (reader_.content_length().value_or(0) > most_dropped) co_return;
  for (std::size_t dropped = 0; dropped <= most_dropped;) {
    auto reading = as_result(reader_.next_piece());
    const auto piece = co_await std::move(reading);
    if (!piece) co_return;
    if (!*piece) {
      end();
      co_return;
    }
    dropped += (*piece)->size();
  }
}

void client_exchange::end() noexcept {
  const bool is_reusable = sent_ && !closes_ && reader_.leaves_reusable();
  if (is_reusable) {
    connection_->in = io::buffer({.prepend = 0});  // an idle connection holds no memory
    connection_.give_back();
  }
  connection_ = {};
  unpacked_ = {};
}

bool client_exchange::is_stale(const std::exception_ptr& error) const noexcept {
  return reused_ && !reader_.has_begun() && !body_used_ && is_broken_connection(error);
}

}  // namespace gyre::http::detail
