// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/client_exchange.hpp>

#include <gyre/http/content_coding.hpp>
#include <gyre/http/error.hpp>
#include <gyre/http/format_error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_result.hpp>
#include <gyre/task/as_task.hpp>
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

constexpr std::size_t max_dropped = std::size_t{64} << 10;
// A body up to this size is sent with the head, in one call.
constexpr std::size_t max_small = std::size_t{16} << 10;
constexpr unsigned first_refusal = 400;  // statuses by which a server refuses a request
constexpr unsigned request_timeout = 408;
constexpr const char* sending_body = "sending the body";
constexpr const char* reading_head = "reading the head of the response";
constexpr const char* reading_body = "reading the body of the response";

// The code of a std::system_error; that of another error is empty.
std::error_code code_of(const std::exception_ptr& error) noexcept try {
  std::rethrow_exception(error);
} catch (const std::system_error& failure) {
  return failure.code();
} catch (...) {
  return {};
}

// Whether the error is that of a connection which has broken.
bool is_broken_connection(const std::exception_ptr& error) noexcept {
  const std::error_code code = code_of(error);
  return code == errc::no_response || code == std::errc::broken_pipe ||
         code == tls::errc::truncated || code == std::errc::connection_reset ||
         code == std::errc::connection_aborted || code == std::errc::not_connected;
}

}  // namespace

client_exchange::client_exchange(client_lease connection, request_clock clock,
                                 const client_options& options, client_request request,
                                 executor& uploader)
    : request_(std::move(request)),
      clock_(std::move(clock)),
      timeouts_(options.timeouts),
      limits_(options.limits),
      url_(request_->url()),
      connection_(std::move(connection)),
      reused_(connection_.is_reused()),
      keep_alive_(asks_for_close(request_->fields()) ? keep_alive::close : keep_alive::kept),
      uploader_(uploader),
      expects_continue_(request_->has_body_ && request_->expects_continue_),
      response_(options.limits, request_->method_text()) {}

void client_exchange::release(client_exchange* exchange) noexcept {
  if (exchange->is_uploading()) exchange->stop_upload_.request_stop();
  if (exchange->is_uploading()) {
    exchange->orphaned_ = true;
  } else {
    delete exchange;
  }
}

task<> client_exchange::run(const request_route& route) {
  write_head(route);
  task<> exchanging = send_and_read_head();
  co_await std::move(exchanging);
  begin_body(route.accept_compressed);
  if (!is_uploading() || response_.head().status < first_refusal) co_return;
  task<> ending = end_upload();
  co_await std::move(ending);
}

task<> client_exchange::send_and_read_head() {
  auto sending = as_result(send_head());
  const auto sent = co_await std::move(sending);
  std::exception_ptr error = sent ? nullptr : sent.error();
  if (!error && !writer_.is_complete()) {
    task<bool> asking = must_send_body();
    const bool must_send = co_await std::move(asking);
    if (!must_send) co_return;
    begin_upload();
    task<> reading = read_head_while_uploading();
    co_await std::move(reading);
    co_return;
  }
  task<> reading = read_head_after(std::move(error));
  co_await std::move(reading);
}

// A server that refuses a request may answer, and close before it has read everything.
task<> client_exchange::read_head_after(std::exception_ptr send_error) {
  if (send_error && !is_broken_connection(send_error)) std::rethrow_exception(send_error);
  auto reading = as_result(read_final_head(clock_.expiry_of(timeouts_.first_byte)));
  const auto read = co_await std::move(reading);
  if (read) co_return;
  if (send_error && !has_begun_) std::rethrow_exception(send_error);
  std::rethrow_exception(read.error());
}

// False if the server has answered a request that expects "100 Continue": it wants no body.
task<bool> client_exchange::must_send_body() {
  if (!expects_continue_) co_return true;
  for (;;) {
    auto waiting = as_result(read_head(clock_.expiry_of(timeouts_.expect_continue)));
    const auto came = co_await std::move(waiting);
    if (!came) {
      // A server may not know about it, and wait for the body.
      if (code_of(came.error()) != errc::timed_out) std::rethrow_exception(came.error());
      co_return true;
    }
    const unsigned status = response_.head().status;
    if (status == 100) co_return true;
    if (status < 200) {
      skip_interim();
      continue;
    }
    co_return false;
  }
}

bool client_exchange::refuses_expectation() const noexcept {
  return response_.head().status == 417 && expects_continue_ && !is_body_used_;
}

void client_exchange::forget_request() noexcept {
  keeps_request_ = false;
  if (!is_uploading()) release_request();
}

void client_exchange::release_request() noexcept {
  head_ = {};
  chunk_ = {};
  request_.reset();
}

// --- Sending ---

bool client_exchange::has_small_body() const noexcept {
  return !request_->is_streamed() && request_->body_.size() <= max_small;
}

void client_exchange::write_head(const request_route& route) {
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
  head_ = make_request_head(*request_, route, writer_);
}

// Sends the head, and a small body unless the server shall agree first.
task<> client_exchange::send_head() {
  const bool with_body = has_small_body() && writer_.state() == writing::body;
  if (with_body) head_ += request_->body_;
  task<> writing = write(std::as_bytes(std::span(head_)));
  co_await std::move(writing);
  if (with_body) writer_.complete();
}

task<> client_exchange::send_body() {
  if (!request_->is_streamed()) {
    task<> writing = write(std::as_bytes(std::span(request_->body_)));
    co_await std::move(writing);
    writer_.complete();
    co_return;
  }
  is_body_used_ = true;
  request_body_writer body(*this);
  task<> streaming = request_->stream_(body);
  co_await std::move(streaming);
  if (writer_.missing() != 0) clock_.fail(errc::body_mismatch, sending_body);
  chunk_.clear();
  writer_.append_end(chunk_, body.trailers_.text());
  task<> ending = write(std::as_bytes(std::span(chunk_)));
  co_await std::move(ending);
  writer_.complete();
}

task<> client_exchange::write_body(std::span<const std::byte> bytes) {
  if (bytes.empty()) co_return;
  if (writer_.add(bytes.size()) != no_error) clock_.fail(errc::body_mismatch, sending_body);
  if (writer_.is_chunked()) {
    chunk_.assign(writer_.open_chunk(bytes.size()));
    chunk_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()).append("\r\n");
    bytes = std::as_bytes(std::span(chunk_));
  }
  task<> writing = write(bytes);
  co_await std::move(writing);
}

task<> client_exchange::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto writing = as_result(
        clock_.wait(connection_->write_some(bytes), timeouts_.send, "sending the request"));
    const auto count = co_await std::move(writing);
    if (!count) std::rethrow_exception(clock_.named(count.error()));
    bytes = bytes.subspan(*count);
  }
}

// --- Receiving ---

steady_time client_exchange::end_of_gap() const noexcept {
  return gaps_are_limited_ ? clock_.expiry_of(timeouts_.between_bytes) : steady_time::max();
}

// Waits for bytes; false at the end of the connection.
task<bool> client_exchange::read_more(steady_time expiry, const char* phase) {
  auto reading = as_result(clock_.wait(connection_->read(), expiry, phase));
  const auto count = co_await std::move(reading);
  if (!count) std::rethrow_exception(clock_.named(count.error()));
  has_begun_ = has_begun_ || *count != 0;
  has_ended_ = *count == 0;
  co_return !has_ended_;
}

// Reads the next head, whose first byte must come until `first_byte`.
task<> client_exchange::read_head(steady_time first_byte) {
  for (;;) {
    const auto is_whole = response_.take_head(connection_->input);
    if (!is_whole) clock_.fail(is_whole.error(), reading_head);
    if (*is_whole) co_return;
    const bool waits_for_first = connection_->input.empty();
    const steady_time expiry = waits_for_first ? first_byte : end_of_gap();
    task<bool> reading =
        read_more(expiry, waits_for_first ? "waiting for the response" : reading_head);
    const bool came = co_await std::move(reading);
    if (!came) clock_.fail(has_begun_ ? errc::truncated : errc::no_response, reading_head);
  }
}

// Reads heads up to the first that is not interim.
task<> client_exchange::read_final_head(steady_time first_byte) {
  for (;;) {
    task<> reading = read_head(first_byte);
    co_await std::move(reading);
    if (!response_.is_interim()) co_return;
    skip_interim();
  }
}

void client_exchange::skip_interim() {
  const errc error = response_.skip_interim();
  if (error == no_error) return;
  clock_.fail(error, "status " + std::to_string(response_.head().status));
}

// The next bytes of the body, without chunks.
task<client_exchange::piece> client_exchange::receive_piece() {
  while (response_.reader().expects_body()) {
    const auto taken = response_.take_piece(connection_->input);
    if (!taken) break;
    if (!taken->empty()) co_return *taken;
    if (!response_.reader().expects_body()) break;
    task<bool> reading = read_more(end_of_gap(), reading_body);
    const bool came = co_await std::move(reading);
    if (came) continue;
    if (response_.end_input() != no_error) break;
  }
  // A body that has failed fails in each further call.
  const errc failure = response_.reader().error();
  if (failure != no_error) clock_.fail(failure, reading_body);
  co_return std::nullopt;
}

// --- The upload ---

void client_exchange::begin_upload() {
  writer_.continue_body();
  gaps_are_limited_ = false;  // the server may wait for the rest
  upload_ended_.reset();
  spawn(uploader_, upload(upload_share(*this)),
        {.stop = stop_upload_.get_token(), .name = "http::client: body of a request"});
}

task<> client_exchange::upload(upload_share share) {
  // The function of the body does not begin after a stop.
  if (share->stop_upload_.stop_requested()) co_return;
  auto sending = as_result(share->send_body());
  const auto sent = co_await std::move(sending);
  if (!sent) share->upload_error_ = sent.error();
}

// The coroutine is being destroyed, and nothing of it is used afterwards.
void client_exchange::upload_ended() noexcept {
  if (!writer_.is_complete() && !upload_error_ && !stop_upload_.stop_requested()) {
    upload_error_ = gyre::detail::make_error(std::errc::operation_canceled);
  }
  gaps_are_limited_ = true;
  if (!keeps_request_) release_request();
  if (orphaned_) {
    delete this;
  } else {
    upload_ended_.set();
  }
}

task<> client_exchange::end_upload() {
  stop_upload_.request_stop();
  co_await upload_ended_.wait();
}

void client_exchange::check_upload() const {
  if (upload_error_ && !is_broken_connection(upload_error_)) {
    std::rethrow_exception(upload_error_);
  }
}

task<std::exception_ptr> client_exchange::try_read_head() {
  auto reading = as_result(read_final_head(steady_time::max()));
  const auto read = co_await std::move(reading);
  co_return read ? std::exception_ptr() : read.error();
}

task<> client_exchange::read_head_while_uploading() {
  auto race = when_any(try_read_head(), upload_ended_.wait());
  auto ended = co_await std::move(race);
  const std::optional<std::exception_ptr>& read = std::get<0>(ended.values);
  if (read && !*read) co_return;  // with or without the whole request
  if (read) {
    task<> ending = end_upload();
    co_await std::move(ending);
    check_upload();
    std::rethrow_exception(upload_error_ && !has_begun_ ? upload_error_ : *read);
  }
  task<> reading = read_head_after(upload_error_);
  co_await std::move(reading);
}

// The response has ended. The server reads on, or closes.
task<> client_exchange::finish_upload() {
  auto race = when_any(server_closes(), upload_ended_.wait());
  auto ended = co_await std::move(race);
  if (is_uploading() && std::get<0>(ended.values) == true) {
    task<> ending = end_upload();
    co_await std::move(ending);
  }
  if (is_uploading()) {
    auto waiting = clock_.wait(as_task(upload_ended_.wait()), steady_time::max(), sending_body);
    co_await std::move(waiting);
  }
  check_upload();
}

// False if bytes have come, which belong to no response of this exchange.
task<bool> client_exchange::server_closes() {
  if (has_ended_) co_return true;
  if (!connection_->input.empty()) co_return false;
  auto watching = as_result(read_more(steady_time::max(), sending_body));
  const auto more = co_await std::move(watching);
  if (!more && !is_broken_connection(more.error())) std::rethrow_exception(more.error());
  co_return !more || !*more;
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

// The unpacked form of the bytes that have come; nothing: more are needed.
client_exchange::piece client_exchange::take_unpacked() {
  const auto unpacked = unpacker_->take();
  if (unpacked) return *unpacked;
  const bool is_limit = unpacked.error() == make_error_code(format_errc::output_limit);
  clock_.fail(is_limit ? errc::body_too_large : errc::bad_content_coding, reading_body);
}

// The next bytes of the body as they came. Throws the error of an upload that has failed meanwhile.
task<client_exchange::piece> client_exchange::read_piece() {
  if (is_uploading()) {
    auto race = when_any(receive_piece(), upload_ended_.wait());
    auto ended = co_await std::move(race);
    if (const auto& read = std::get<0>(ended.values)) co_return *read;
  }
  check_upload();
  auto reading = receive_piece();
  const piece read = co_await std::move(reading);
  co_return read;
}

task<client_exchange::piece> client_exchange::next_chunk() {
  if (!connection_.has_connection()) co_return std::nullopt;
  for (;;) {
    if (unpacker_) {
      if (const auto unpacked = take_unpacked()) co_return unpacked;
    }
    const bool has_body = response_.reader().expects_body();
    if (has_unknown_coding_ && has_body) clock_.fail(errc::bad_content_coding, reading_body);
    task<piece> reading = read_piece();
    const piece read = co_await std::move(reading);
    if (!read) break;
    if (!unpacker_) co_return read;
    unpacker_->feed(*read);
  }
  if (unpacker_ && !unpacker_->is_complete()) clock_.fail(errc::truncated, reading_body);
  if (is_uploading()) {
    task<> finishing = finish_upload();
    co_await std::move(finishing);
  }
  end();
  co_return std::nullopt;
}

task<> client_exchange::read_body() {
  const std::uint64_t announced = response_.content_length().value_or(0);
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
  const bool may_be_kept = writer_.is_complete() && keep_alive_ == keep_alive::kept;
  const bool is_long = response_.content_length().value_or(0) > max_dropped;
  if (!is_uploading() && (!may_be_kept || is_long)) co_return;
  for (std::size_t dropped = 0; is_uploading() || dropped <= max_dropped;) {
    auto reading = as_result(read_piece());
    const auto read = co_await std::move(reading);
    if (!read) co_return;
    if (!*read) {
      if (is_uploading()) {
        task<> finishing = finish_upload();
        co_await std::move(finishing);
      }
      end();
      co_return;
    }
    dropped += (*read)->size();
  }
}

task<> client_exchange::stop() {
  auto ending = shielded(end_upload());
  co_await std::move(ending);
  connection_ = {};
  unpacker_.reset();
}

void client_exchange::end() noexcept {
  if (!response_.head().framing.keep_alive) keep_alive_ = keep_alive::close;
  const message_reader& reader = response_.reader();
  const bool is_read = reader.state() == reading::ended && reader.error() == no_error;
  const bool is_reusable = writer_.is_complete() && is_read && keep_alive_ == keep_alive::kept &&
                           connection_->input.empty();
  if (is_reusable) {
    connection_->input = io::buffer({.prepend = 0});  // an idle connection holds no memory
    const std::optional<std::chrono::seconds> limit = response_.idle_time_of_server();
    connection_.give_back(limit ? duration(*limit) : duration::max());
  }
  connection_ = {};
  unpacker_.reset();
}

bool client_exchange::is_stale(const std::exception_ptr& error) const noexcept {
  return reused_ && !has_begun_ && !is_body_used_ && is_broken_connection(error);
}

bool client_exchange::met_idle_limit() const noexcept {
  const response_head& head = response_.head();
  return reused_ && !is_body_used_ && head.status == request_timeout && !head.framing.keep_alive;
}

}  // namespace gyre::http::detail
