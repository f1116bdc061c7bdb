// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_exchange.hpp>

#include <gyre/base/detail/error_code_of.hpp>
#include <gyre/http/content_coding.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/format_error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/shielded.hpp>
#include <gyre/task/spawn.hpp>
#include <gyre/task/when_any.hpp>
#include <gyre/tls/error.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace gyre::http::detail {
namespace {

using gyre::detail::error_code_of;

constexpr std::size_t max_dropped = std::size_t{64} << 10;
// A body up to this size is sent with the head, in one call.
constexpr std::size_t max_small = std::size_t{16} << 10;
constexpr unsigned first_refusal = 400;  // the lowest status by which a server refuses a request
constexpr unsigned request_timeout = 408;
constexpr const char* sending_body = "sending the body";
constexpr const char* reading_head = "reading the head of the response";
constexpr const char* reading_body = "reading the body of the response";

// Whether the error means that the connection has broken.
bool is_broken_connection(const std::exception_ptr& error) noexcept {
  const std::error_code code = error_code_of(error);
  return code == errc::no_response || code == std::errc::broken_pipe ||
         code == tls::errc::truncated || code == std::errc::connection_reset ||
         code == std::errc::connection_aborted || code == std::errc::not_connected;
}

}  // namespace

client_exchange::client_exchange(client_stream_pointer stream, request_clock clock,
                                 const client_options& options, client_request request,
                                 executor& uploader)
    : request_(std::move(request)),
      clock_(std::move(clock)),
      timeouts_(options.timeouts),
      limits_(options.limits),
      url_(request_->url()),
      stream_(std::move(stream)),
      is_reused_(stream_->is_reused()),
      keep_alive_(asks_for_close(request_->fields()) ? keep_alive::close : keep_alive::kept),
      uploader_(uploader),
      expects_continue_(request_->has_body_ && request_->expects_continue_),
      response_(options.limits, request_->method_text()) {}

void client_exchange::release(client_exchange* exchange) noexcept {
  if (exchange->is_uploading()) exchange->stop_upload_.request_stop();
  if (exchange->is_uploading()) {
    exchange->is_orphaned_ = true;
  } else {
    delete exchange;
  }
}

task<> client_exchange::run(const request_route& route) {
  std::exception_ptr send_error;
  bool has_head = false;
  auto send_task = as_result(send_head(route));
  const auto result = co_await std::move(send_task);
  if (!result) {
    send_error = result.error();
  } else if (sends_body_apart()) {
    task<bool> upload_task = upload_and_read_head();
    has_head = co_await std::move(upload_task);
    send_error = upload_error_;
  } else {
    writer_.complete();
  }
  if (!has_head) {
    // Read the head even after a broken connection: a server that refuses a request may respond,
    // and close before it has read the whole request.
    if (send_error && !has_lost_server(send_error)) std::rethrow_exception(send_error);
    auto read_task = as_result(read_head(clock_.expiry_of(timeouts_.first_byte)));
    const auto head_result = co_await std::move(read_task);
    if (!head_result)
      std::rethrow_exception(send_error && !has_begun_ ? send_error : head_result.error());
  }
  begin_body(route.accept_compressed);
  if (is_uploading() && response_.head().status >= first_refusal) co_await end_upload();
}

// Sends the body and reads the head of the response at the same time. Returns true if the head was
// read, even if the body was not sent completely; false if the upload has ended first.
task<bool> client_exchange::upload_and_read_head() {
  if (expects_continue_) {
    task<bool> question = server_wants_body();
    const bool is_wanted = co_await std::move(question);
    if (!is_wanted) co_return true;
  }
  begin_upload();
  auto race = when_any(as_result(read_head(steady_time::max())), upload_ended_.wait());
  auto first_end = co_await std::move(race);
  const auto& result = std::get<0>(first_end.values);
  if (result && !*result) {
    co_await end_upload();
    check_upload();
    std::rethrow_exception(upload_error_ && !has_begun_ ? upload_error_ : result->error());
  }
  co_return result.has_value();
}

// Waits for "100 Continue". Returns false if the server has sent a final response instead.
task<bool> client_exchange::server_wants_body() {
  auto read_task = as_result(read_head(clock_.expiry_of(timeouts_.expect_continue)));
  const auto result = co_await std::move(read_task);
  if (result) co_return response_.is_interim();
  // Send the body after the time limit, because a server that ignores the expectation waits for the
  // body.
  if (error_code_of(result.error()) != errc::timed_out) std::rethrow_exception(result.error());
  co_return true;
}

bool client_exchange::refuses_expectation() const noexcept {
  return response_.head().status == 417 && expects_continue_ && !is_body_used_;
}

void client_exchange::forget_request() noexcept {
  keeps_request_ = false;
  if (!is_uploading()) release_request();
}

void client_exchange::release_request() noexcept { request_.reset(); }

// --- Sending ---

// Sends the head, and a small body unless "100 Continue" must come first.
task<> client_exchange::send_head(const request_route& route) {
  const http::method method = request_->method_;
  const bool wants_length =
      method == http::method::post || method == http::method::put || method == http::method::patch;
  body_kind kind = request_->has_body_ || wants_length ? body_kind::length : body_kind::none;
  std::uint64_t length = request_->body_.size();
  if (request_->is_streamed()) {
    if (!request_->stream_length_) kind = body_kind::chunked;
    length = request_->stream_length_.value_or(0);
  }
  writer_.begin_request(kind, length, expects_continue_);
  const client_stream::message request_message{
      .request = *request_,
      .route = route,
      .framing = writer_,
      .body = sends_body_apart() ? std::string_view() : std::string_view(request_->body_)};
  return stream_->send_head(request_message, clock_, timeouts_.send);
}

bool client_exchange::sends_body_apart() const noexcept {
  return request_->is_streamed() || request_->body_.size() > max_small ||
         writer_.state() == writing::awaiting_continue;
}

task<> client_exchange::send_body() {
  if (!request_->is_streamed()) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(request_->body_));
    if (writer_.add(bytes.size()) != no_error) clock_.fail(errc::body_mismatch, sending_body);
    task<> send_task = stream_->send_body(writer_, bytes, clock_, timeouts_.send);
    co_await std::move(send_task);
    writer_.complete();
    co_return;
  }
  is_body_used_ = true;
  request_body_writer body(*this);
  task<> stream_task = request_->stream_(body);
  co_await std::move(stream_task);
  if (writer_.missing() != 0) clock_.fail(errc::body_mismatch, sending_body);
  task<> end_task = stream_->end_body(writer_, body.trailers_, clock_, timeouts_.send);
  co_await std::move(end_task);
  writer_.complete();
}

task<> client_exchange::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return;
  if (writer_.add(bytes.size()) != no_error) clock_.fail(errc::body_mismatch, sending_body);
  task<> send_task = stream_->send_body(writer_, bytes, clock_, timeouts_.send);
  co_await std::move(send_task);
}

// Whether the connection to the server has broken while the request was sent, or the server has
// reset the stream. Without a failed write such an error comes from the source of the body.
bool client_exchange::has_lost_server(const std::exception_ptr& send_error) const noexcept {
  if (stream_ == nullptr || !stream_->has_send_failed()) return false;
  return is_broken_connection(send_error) || error_code_of(send_error) == errc::stream_reset ||
         error_code_of(send_error) == errc::request_refused;
}

// --- Receiving ---

steady_time client_exchange::end_of_gap() const noexcept {
  return gaps_are_limited_ ? clock_.expiry_of(timeouts_.between_bytes) : steady_time::max();
}

// Called with the result of client_stream::receive(), which it returns.
bool client_exchange::note_received(bool has_received) noexcept {
  has_begun_ = has_begun_ || has_received;
  has_ended_ = !has_received;
  return has_received;
}

// Reads heads up to that of the final response, or of a "100 Continue" that the request expects.
// `first_byte`: the deadline for the first byte of each head.
task<> client_exchange::read_head(steady_time first_byte) {
  for (;;) {
    const auto is_whole = stream_->take_head(response_);
    if (!is_whole) clock_.fail(is_whole.error(), reading_head);
    if (*is_whole) {
      const bool continues =
          response_.head().status == 100 && writer_.state() == writing::awaiting_continue;
      if (!response_.is_interim() || continues) co_return;
      skip_interim();
      continue;
    }
    const bool waits_for_first = !stream_->has_input();
    auto receive_task =
        stream_->receive(clock_, waits_for_first ? first_byte : end_of_gap(),
                         waits_for_first ? "waiting for the response" : reading_head);
    const bool has_received = co_await std::move(receive_task);
    if (!note_received(has_received)) {
      clock_.fail(has_begun_ ? errc::truncated : errc::no_response, reading_head);
    }
  }
}

void client_exchange::skip_interim() {
  const errc error = response_.skip_interim();
  if (error == no_error) return;
  clock_.fail(error, "status " + std::to_string(response_.head().status));
}

// Returns the next bytes of the body, without chunk framing but still packed; nothing at the end of
// the body. Throws the error of a failed upload.
task<client_exchange::piece> client_exchange::receive_piece() {
  check_upload();
  while (response_.reader().expects_body()) {
    const auto bytes_of_body = stream_->take_piece(response_);
    if (!bytes_of_body) break;
    if (!bytes_of_body->empty()) co_return *bytes_of_body;
    if (!response_.reader().expects_body()) break;
    auto receive_task = stream_->receive(clock_, end_of_gap(), reading_body);
    const bool has_received = co_await std::move(receive_task);
    if (!note_received(has_received) && response_.end_input() != no_error) break;
  }
  // A failed body stays failed: each call throws the same error.
  const errc failure = response_.reader().error();
  if (failure != no_error) clock_.fail(failure, reading_body);
  co_return std::nullopt;
}

// --- The upload ---

void client_exchange::begin_upload() {
  writer_.continue_body();
  gaps_are_limited_ = false;  // the server may be silent until it has received the whole body
  upload_ended_.reset();
  spawn(uploader_, upload(upload_share(*this)),
        {.stop = stop_upload_.get_token(), .name = "http::client: body of a request"});
}

task<> client_exchange::upload(upload_share share) {
  // After a stop, the function of a streamed body must not be called.
  if (share->stop_upload_.stop_requested()) co_return;
  auto send_task = as_result(share->send_body());
  const auto result = co_await std::move(send_task);
  if (!result) share->upload_error_ = result.error();
}

// Called when the coroutine of the upload is destroyed. The coroutine does not use the exchange
// afterwards, so that the exchange may be destroyed here.
void client_exchange::on_upload_ended() noexcept {
  if (!writer_.is_complete() && !upload_error_ && !stop_upload_.stop_requested()) {
    upload_error_ = gyre::detail::make_error(std::errc::operation_canceled);
  }
  gaps_are_limited_ = true;
  if (!keeps_request_) release_request();
  if (is_orphaned_) {
    delete this;
  } else {
    upload_ended_.set();
  }
}

void client_exchange::check_upload() const {
  if (upload_error_ && !has_lost_server(upload_error_)) std::rethrow_exception(upload_error_);
}

// Waits until the upload has ended, after the end of the response. Stops the upload if the server
// closes the connection.
task<> client_exchange::finish_upload() {
  auto race = when_any(server_closes(), upload_ended_.wait());
  auto first_end = co_await std::move(race);
  if (is_uploading() && std::get<0>(first_end.values) == true) co_await end_upload();
  if (is_uploading()) {
    auto wait = clock_.wait(upload_ended_.wait(), steady_time::max(), sending_body);
    co_await std::move(wait);
  }
  check_upload();
}

// Waits until the server closes the connection or sends more bytes, which belong to no response of
// this exchange. Returns true if the server closes first.
task<bool> client_exchange::server_closes() {
  if (has_ended_) co_return true;
  if (stream_->has_input()) co_return false;
  auto receive_task = as_result(stream_->receive(clock_, steady_time::max(), sending_body));
  const auto has_received = co_await std::move(receive_task);
  if (has_received) co_return !note_received(*has_received);
  if (!is_broken_connection(has_received.error())) std::rethrow_exception(has_received.error());
  co_return true;
}

// --- The body ---

void client_exchange::begin_body(bool unpack) {
  if (!unpack || response_.head().framing.body == body_kind::none) return;
  const auto codings = content_codings_of(response_.fields());
  has_unknown_coding_ = !codings.has_value();
  if (!codings || codings->empty()) return;
  unpacker_.emplace(*codings, limits_.decompressed);
  response_.hide_content_coding();
}

// Returns unpacked bytes; nothing if the unpacker needs more input.
client_exchange::piece client_exchange::take_unpacked() {
  const auto output = unpacker_->take();
  if (output) return *output;
  const bool is_limit = output.error() == make_error_code(format_errc::output_limit);
  clock_.fail(is_limit ? errc::body_too_large : errc::bad_content_coding, reading_body);
}

task<client_exchange::piece> client_exchange::receive_piece_while_uploading() {
  auto race = when_any(receive_piece(), upload_ended_.wait());
  auto first_end = co_await std::move(race);
  if (const auto& result = std::get<0>(first_end.values)) co_return *result;
  auto receive_task = receive_piece();
  const piece next_piece = co_await std::move(receive_task);
  co_return next_piece;
}

task<client_exchange::piece> client_exchange::next_chunk() {
  if (stream_ == nullptr) co_return std::nullopt;
  for (;;) {
    if (unpacker_) {
      if (const auto output = take_unpacked()) co_return output;
    }
    const bool has_body = response_.reader().expects_body();
    if (has_unknown_coding_ && has_body) clock_.fail(errc::bad_content_coding, reading_body);
    task<piece> receive_task = is_uploading() ? receive_piece_while_uploading() : receive_piece();
    const piece result = co_await std::move(receive_task);
    if (!result) break;
    if (!unpacker_) co_return result;
    unpacker_->feed(*result);
  }
  if (unpacker_ && !unpacker_->is_complete()) clock_.fail(errc::truncated, reading_body);
  if (is_uploading()) {
    task<> finish_task = finish_upload();
    co_await std::move(finish_task);
  }
  end();
  co_return std::nullopt;
}

task<> client_exchange::read_body() {
  const std::uint64_t announced_length = response_.content_length().value_or(0);
  if (announced_length > limits_.body) clock_.fail(errc::body_too_large, reading_body);
  body_.reserve(std::min<std::uint64_t>(announced_length, first_reservation));
  for (;;) {
    auto read_task = next_chunk();
    const auto chunk = co_await std::move(read_task);
    if (!chunk) co_return;
    if (chunk->size() > limits_.body - body_.size()) {
      clock_.fail(errc::body_too_large, reading_body);
    }
    body_.append(reinterpret_cast<const char*>(chunk->data()), chunk->size());
  }
}

task<> client_exchange::drop_body() {
  const bool may_be_kept = writer_.is_complete() && keep_alive_ == keep_alive::kept;
  const bool is_long = response_.content_length().value_or(0) > max_dropped;
  if (!is_uploading() && (!may_be_kept || is_long)) co_return;
  for (std::size_t dropped_bytes = 0; is_uploading() || dropped_bytes <= max_dropped;) {
    auto receive_task =
        as_result(is_uploading() ? receive_piece_while_uploading() : receive_piece());
    const auto result = co_await std::move(receive_task);
    if (!result) co_return;
    if (!*result) {
      if (is_uploading()) {
        task<> finish_task = finish_upload();
        co_await std::move(finish_task);
      }
      end();
      co_return;
    }
    dropped_bytes += (*result)->size();
  }
}

task<> client_exchange::stop() {
  auto end_task = shielded(end_upload());
  co_await std::move(end_task);
  stream_.reset();
  unpacker_.reset();
}

void client_exchange::end() noexcept {
  if (!response_.head().framing.keep_alive) keep_alive_ = keep_alive::close;
  const message_reader& reader = response_.reader();
  const bool is_read = reader.state() == reading::ended && reader.error() == no_error;
  const bool is_reusable = writer_.is_complete() && is_read && keep_alive_ == keep_alive::kept;
  if (is_reusable) stream_->give_back(response_.idle_time_of_server());
  stream_.reset();
  unpacker_.reset();
}

bool client_exchange::is_stale(const std::exception_ptr& error) const noexcept {
  return is_reused_ && !has_begun_ && !is_body_used_ && is_broken_connection(error);
}

bool client_exchange::met_idle_limit() const noexcept {
  const response_head& head = response_.head();
  return is_reused_ && !is_body_used_ && head.status == request_timeout && !head.framing.keep_alive;
}

}  // namespace gyre::http::detail
