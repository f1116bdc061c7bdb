// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/http2_stream.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/http/detail/body_access.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/exchange.hpp>
#include <gyre/http/detail/http2_connection.hpp>
#include <gyre/http/detail/max_copied.hpp>
#include <gyre/http/detail/read_file.hpp>
#include <gyre/http/detail/server_core.hpp>
#include <gyre/http/response.hpp>
#include <gyre/net/tcp_connection.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <utility>

namespace gyre::http::detail {
namespace {

// A writer waits when this many bytes of its body are unsent, until a quarter of them is left.
constexpr std::size_t max_pending = std::size_t{64} << 10;
// The lower limit of unsent bytes, which holds while the connection's responses use much memory.
constexpr std::size_t min_pending = std::size_t{8} << 10;
// A window is enlarged when less than this is left of it.
constexpr std::size_t min_window = std::size_t{32} << 10;

// Whether the field belongs to a connection of HTTP/1.1, and so is not allowed (RFC 9113, 8.2.2).
constexpr bool is_of_http1(std::string_view name) noexcept {
  for (const std::string_view field_name :
       {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}) {
    if (equals_ignoring_case(name, field_name)) return true;
  }
  return false;
}

bool is_head(const header_block& block) noexcept {
  for (std::size_t i = 0; i < block.size() && block[i].name.starts_with(':'); ++i) {
    if (block[i].name == ":method") return block[i].value == "HEAD";
  }
  return false;
}

std::string_view text_of(std::array<char, 20>& digits, std::uint64_t number) noexcept {
  const char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), static_cast<std::size_t>(end - digits.data())};
}

// Returns the value in the line "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".
std::string_view date_of(std::string_view line) noexcept { return line.substr(6, line.size() - 8); }

}  // namespace

http2_stream::http2_stream(http2_connection& connection, std::int32_t id) noexcept
    : exchange_stream(connection.tcp(), connection.shard()), connection_(connection), id_(id) {}

http2_stream::~http2_stream() = default;

// --- The request ---

void http2_stream::begin(const header_block& head, bool is_end) {
  is_head_request_ = is_head(head);
  exchange_ = &shard_.acquire();
  connection_.core().begin_work();
  if (const errc error = exchange_->begin_request(*this, head, is_end); error != no_error) {
    return refuse(error);
  }
  head_cost_ = head.cost();
  connection_.add_head(head_cost_);
  if (!exchange_->request().connect_protocol().empty()) {
    early_ = std::make_unique<early_input>();
    early_->has_ended = is_end;
  }
  if (!exchange_->body().expects_more()) return become_ready();
  body_clock_.begin(connection_.current_time());
  const std::size_t window = connection_.core().options.http2.stream_window;
  if (exchange_->body().is_streamed()) {
    enlarge_window();
    pause_body_clock();
    return become_ready();
  }
  reserved_ = std::min<std::size_t>(window, http2_session::max_initial_window);
  connection_.reserve_body(reserved_);
  enlarge_window();
  exchange_->send_continue();
  set_body_deadline();
}

void http2_stream::become_ready() {
  body_deadline_ = exchange_->body().expects_more() ? body_deadline_ : steady_time::max();
  state_ = state::waiting;
  // The rest of the body will not come, so its reservation ends: other requests may need the
  // memory.
  connection_.unreserve_body(reserved_ - std::min(reserved_, held_));
  reserved_ = std::min(reserved_, held_);
  if (connection_.may_run()) return run();
  connection_.note_waiting();
}

void http2_stream::run() {
  state_ = state::running;
  exchange_->run_handler();
}

void http2_stream::receive(std::span<const std::byte> bytes) {
  if (early_ != nullptr) {
    early_->bytes.append(bytes);
    uncredited_ += bytes.size();
    return connection_.add_input(bytes.size());
  }
  if (exchange_ == nullptr || !exchange_->body().expects_more()) {
    connection_.session().credit_connection(bytes.size());
    return;
  }
  const bool is_streamed = exchange_->body().is_streamed();
  if (is_streamed) {
    uncredited_ += bytes.size();
    connection_.add_input(bytes.size());
  } else {
    connection_.session().credit_connection(bytes.size());
  }
  if (const errc error = exchange_->receive_body(bytes); error != no_error) return refuse(error);
  if (is_streamed) {
    if (exchange_ != nullptr && !exchange_->body().arrival().has_begun() &&
        !body_clock_.is_paused()) {
      pause_body_clock();
    }
    return;
  }
  held_ += bytes.size();
  set_body_deadline();
  enlarge_window();
  connection_.hold_body(bytes.size());
}

// Enlarges the window when little of it is left, by as much as the client has sent, and at least to
// stream_window. The window ends one byte after the announced body, so that a longer body fails.
// The session knows the window, which the client's acknowledgement of SETTINGS changes, too.
void http2_stream::grant_window() noexcept {
  if (exchange_ == nullptr || !exchange_->body().expects_more()) return;
  http2_session& session = connection_.session();
  const std::size_t step = connection_.core().options.http2.stream_window;
  if (exchange_->body().is_streamed()) return session.set_window(id_, step);
  constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t missing_bytes = std::min(exchange_->body().missing(), unlimited - 1) + 1;
  const std::size_t left = session.window(id_);
  if (state_ != state::receiving || left >= std::min<std::uint64_t>(missing_bytes, min_window))
    return;
  std::size_t end = held_ + static_cast<std::size_t>(
                                std::min<std::uint64_t>(missing_bytes, std::max(held_, step)));
  if (end > reserved_) {
    if (connection_.try_reserve_body(*this, end - reserved_)) {
      reserved_ = end;
    } else {
      end = reserved_;
    }
  }
  if (end <= held_ + left) return;
  session.set_window(id_, end);
  connection_.schedule_flush();
}

void http2_stream::enlarge_window() noexcept {
  grant_window();
  update_body_clock();
}

void http2_stream::end_request(const header_block& trailers) {
  if (exchange_ == nullptr) return;
  if (early_ != nullptr) {
    early_->has_ended = true;
    return;
  }
  body_deadline_ = steady_time::max();
  exchange_->end_body(trailers);
  if (state_ == state::receiving) become_ready();
}

void http2_stream::refuse(errc error) {
  shard_.counts.malformed.add(1);
  if (error == errc::timed_out) shard_.counts.timeouts.add(1);
  body_deadline_ = steady_time::max();
  if (state_ == state::running) {
    // The handler gets this error when it reads the body.
    if (exchange_ != nullptr) exchange_->fail_body(error);
    return;
  }
  detach_exchange();
  send_error(static_cast<status>(status_code_of(error)), make_error_code(error).message());
}

void http2_stream::send_error(http::status code, std::string_view text) {
  shard_.counts.by_class[std::min(to_number(code) / 100, 5U)].add(1);
  if (!is_head_request_) body_.assign(text).append("\n");
  rest_ = body_;
  connection_.add_output(rest_.size());
  std::array<char, 20> digits;
  header_block& head = shard_.http2_head;
  head.clear();
  head.add(":status", text_of(digits, to_number(code)));
  head.add("date", date_of(shard_.date_line(connection_.current_time())));
  head.add("content-type", "text/plain; charset=utf-8");
  head.add("content-length", text_of(digits, text.size() + 1));
  respond(head, !rest_.empty());
}

void http2_stream::on_peer_ended() {
  // The rest of an incomplete request will not come.
  if (state_ == state::receiving) return reset(http2_error::cancel);
  if (early_ != nullptr) early_->has_ended = true;
  if (exchange_ != nullptr) exchange_->on_peer_ended();
}

// --- The body of the request ---

void http2_stream::want_body() {
  if (exchange_->is_upgraded()) {
    if (early_ != nullptr) take_early_input();
    return enlarge_window();
  }
  if (body_clock_.is_paused()) body_clock_.resume(shard_.loop().now());
  set_body_deadline();
  update_body_clock();
}

// Whether the connection's other requests keep the client from sending more of the body. A lack of
// the server's memory does not count, so that the time limits end bodies that hold memory.
bool http2_stream::is_held_up() const noexcept {
  const http2_session& session = connection_.session();
  if (session.connection_window() == 0) return true;
  return !exchange_->body().is_streamed() && session.window(id_) == 0 &&
         connection_.must_wait_for_memory(*this);
}

void http2_stream::update_body_clock() noexcept {
  if (exchange_ == nullptr || !exchange_->body().expects_more() || exchange_->is_upgraded()) return;
  const bool is_awaited = exchange_->body().is_streamed() ? exchange_->body().arrival().has_begun()
                                                          : state_ == state::receiving;
  const bool runs = is_awaited && !is_held_up();
  if (runs != body_clock_.is_paused()) return;
  if (!runs) return pause_body_clock();
  body_clock_.resume(shard_.loop().now());
  set_body_deadline();
}

// Called when an extended CONNECT was accepted, before its handler reads.
void http2_stream::take_early_input() {
  const std::unique_ptr<early_input> input = std::move(early_);
  // No limit applies to the bytes of an upgraded stream.
  static_cast<void>(exchange_->receive_body(input->bytes.bytes()));
  if (input->has_ended) exchange_->end_body({});
}

void http2_stream::set_body_deadline() {
  if (body_clock_.is_paused()) return;
  const auto deadline =
      body_clock_.deadline(connection_.core().options.timeouts, exchange_->body().received());
  if (!deadline) return;
  body_deadline_ = *deadline;
  connection_.note_deadline(*deadline);
}

void http2_stream::pause_body_clock() noexcept {
  body_clock_.pause(shard_.loop().now());
  body_deadline_ = steady_time::max();
}

void http2_stream::on_body_taken(std::size_t count) noexcept {
  if (!exchange_->body().is_streamed() || count > uncredited_) return;
  uncredited_ -= count;
  connection_.remove_input(count);
  connection_.session().credit_stream(id_, count);
  connection_.session().credit_connection(count);
  connection_.schedule_flush();
}

void http2_stream::release_request() noexcept {
  early_.reset();
  body_deadline_ = steady_time::max();
  connection_.remove_head(std::exchange(head_cost_, 0));
  if (uncredited_ != 0) {
    connection_.remove_input(uncredited_);
    connection_.session().credit_connection(std::exchange(uncredited_, 0));
    connection_.schedule_flush();
  }
  connection_.release_body(std::exchange(held_, 0));
  if (reserved_ != 0) connection_.unreserve_body(std::exchange(reserved_, 0));
}

// --- The response ---

std::shared_ptr<server_core> http2_stream::share_core() const {
  return connection_.keep_slot(head_cost_ + held_ + uncredited_);
}

bool http2_stream::can_send() const noexcept { return is_open_ && connection_.can_send(); }

void http2_stream::respond(const header_block& head, bool has_body) {
  has_responded_ = true;
  state_ = state_ == state::running ? state::running : state::sending;
  head_output_ = head.cost();
  connection_.add_output(head_output_);
  connection_.session().respond(id_, head, has_body ? this : nullptr);
  connection_.schedule_flush();
}

void http2_stream::note_head_sent() noexcept {
  connection_.remove_output(std::exchange(head_output_, 0));
}

void http2_stream::send_continue() {
  header_block& head = shard_.http2_head;
  head.clear();
  head.add(":status", "100");
  connection_.session().send_interim(id_, head);
  connection_.schedule_flush();
}

void http2_stream::send(exchange& sender, response& result) {
  std::array<char, 20> digits;
  header_block& head = shard_.http2_head;
  head.clear();
  // A stream switches its protocol by a success (RFC 8441, 5).
  const http::status code = sender.is_upgraded() ? status::ok : result.status();
  head.add(":status", text_of(digits, to_number(code)));
  bool has_date = false;
  bool offers_upgrade = false;
  std::optional<std::uint64_t> content_length;
  for (const field& field : result.fields()) {
    if (equals_ignoring_case(field.name, "content-length")) {
      content_length = gyre::detail::parse_decimal<std::uint64_t>(field.value);
    } else if (!is_of_http1(field.name)) {
      has_date = has_date || equals_ignoring_case(field.name, "date");
      head.add_lowered(field.name, field.value);
    } else {
      offers_upgrade = offers_upgrade || equals_ignoring_case(field.name, "upgrade");
    }
  }
  const message_writer& framing = sender.begin_body(result, content_length);
  if (offers_upgrade && result.status() == status::upgrade_required) {
    // HTTP/1.1 alone can upgrade a connection; most clients then try it.
    has_responded_ = true;
    is_open_ = false;
    connection_.session().reset(id_, http2_error::http_1_1_required);
    connection_.schedule_flush();
    static_cast<void>(sender.take_whole_body(result));
    return;
  }
  if (const field id = sender.id_field(result); !id.name.empty()) {
    head.add_lowered(id.name, id.value);
  }
  if (!has_date) head.add("date", date_of(shard_.date_line(connection_.current_time())));
  if (const auto length = framing.content_length()) {
    head.add("content-length", text_of(digits, *length));
  }
  if (!http2_session::may_send(head) && !result.fields().empty()) {
    sender.refuse_head(result);
    return send(sender, result);
  }
  if (framing.is_complete() && !sender.is_upgraded()) return respond(head, false);
  if (!sender.take_whole_body(result)) {
    has_more_output_ = true;
    return respond(head, true);
  }
  if (!body_access::is_borrowed(result)) {
    body_ = body_access::take_body(result);
    rest_ = body_;
  } else if (result.body().size() <= max_copied || sender.holds(result.body())) {
    pending_.append(result.body());  // a short body goes to memory of the slab allocator
  } else {
    rest_ = result.body();
  }
  connection_.add_output(output_size());
  respond(head, output_size() != 0);
}

void http2_stream::send_file(body_source& source) {
  has_more_output_ = false;
  file_ = std::move(source.file);
  file_offset_ = source.offset;
  file_rest_ = source.count;
  connection_.session().resume(id_);
  connection_.schedule_flush();
}

write_outcome http2_stream::write(message_writer& /*framing*/, std::span<const std::byte> bytes) {
  if (!connection_.may_write()) {
    waits_for_drain_ = true;
    connection_.note_waiting_writer();
    return write_outcome::full;
  }
  pending_.append(bytes);
  connection_.add_output(bytes.size());
  connection_.session().resume(id_);
  connection_.schedule_flush();
  // A writer waits earlier while the connection's responses hold much, so that a few of them cannot
  // block the others.
  waits_for_drain_ =
      pending_.size() >= max_pending || (!connection_.may_run() && pending_.size() >= min_pending);
  if (!waits_for_drain_) return write_outcome::taken;
  connection_.note_waiting_writer();
  return write_outcome::taken_and_full;
}

void http2_stream::end_body(const message_writer& framing, const http::fields& trailers) {
  if (framing.is_chunked() && !trailers.empty()) {
    auto block = std::make_unique<header_block>();
    for (const field& trailer : trailers) {
      if (!is_of_http1(trailer.name)) block->add_lowered(trailer.name, trailer.value);
    }
    if (!http2_session::may_send(*block)) {
      throw std::length_error("http::server: the trailers are too long for HTTP/2");
    }
    trailers_ = std::move(block);
  }
  has_more_output_ = false;
  connection_.session().resume(id_);
  connection_.schedule_flush();
}

void http2_stream::abort() noexcept {
  if (!std::exchange(is_open_, false)) return;
  connection_.session().reset(id_, http2_error::internal_error);
  connection_.schedule_flush();
}

void http2_stream::on_exchange_ended(keep_alive /*future*/) noexcept {
  exchange_ = nullptr;
  state_ = state::sending;
  release_request();
  if ((!has_responded_ || has_more_output_) && std::exchange(is_open_, false)) {
    connection_.session().reset(id_, http2_error::cancel);
  }
  connection_.schedule_flush();
}

// --- Frames ---

std::size_t http2_stream::output_size() const noexcept {
  if (file_rest_ != 0) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(file_rest_, std::size_t{1} << 30));
  }
  return rest_.size() + pending_.size();
}

http2_body_source::offer http2_stream::offer_bytes(std::size_t max_size) noexcept {
  const std::size_t all = output_size();
  const std::size_t size = std::min(all, max_size);
  return {.size = size, .is_last = size == all && !has_more_output_ && size >= file_rest_};
}

bool http2_stream::take_bytes(io::buffer& output, std::size_t size) {
  if (stall_deadline_ != steady_time::max()) taken_while_blocked_ += size;
  if (file_rest_ != 0) {
    const std::span<std::byte> room = output.prepare(size);
    if (read_file(file_.get(), file_offset_, room)) return false;
    output.commit(size);
    file_offset_ += size;
    file_rest_ -= size;
    if (file_rest_ == 0) file_.reset();
    return true;
  }
  connection_.remove_output(size);
  if (!rest_.empty()) {
    output.append(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }
  output.append(pending_.take(size));
  if (pending_.empty()) pending_.clear();
  return true;
}

bool http2_stream::wake_writer() {
  if (!waits_for_drain_) return true;
  const std::size_t max_left = connection_.may_run() ? max_pending / 4 : min_pending / 2;
  if (pending_.size() > max_left || !connection_.may_write()) return false;
  waits_for_drain_ = false;
  if (exchange_ != nullptr) exchange_->on_low_water();
  return true;
}

steady_time http2_stream::note_blocked(steady_time time) noexcept {
  const server_options& options = connection_.core().options;
  const duration limit = options.tcp.connections.write_timeout;
  if (limit.count() == 0) return steady_time::max();
  const steady_time last_deadline = gyre::detail::later(time, limit);
  if (stall_deadline_ == steady_time::max()) {
    stall_deadline_ = last_deadline;
    taken_while_blocked_ = 0;
  } else if (options.http2.response_rate == 0) {
    if (std::exchange(taken_while_blocked_, 0) != 0) stall_deadline_ = last_deadline;
  } else {
    const std::uint64_t rate = options.http2.response_rate;
    const std::chrono::duration<std::uint64_t> credit(taken_while_blocked_ / rate);
    taken_while_blocked_ %= rate;
    stall_deadline_ = std::min(last_deadline, gyre::detail::later(stall_deadline_, credit));
  }
  return stall_deadline_;
}

bool http2_stream::is_blocked() const noexcept {
  return is_open_ && has_output() && connection_.session().send_window(id_) == 0;
}

bool http2_stream::has_stalled(steady_time time) noexcept {
  if (time < stall_deadline_) return false;
  if (is_blocked()) return time >= note_blocked(time);
  note_unblocked();
  return false;
}

// --- The end ---

void http2_stream::reset(http2_error error) noexcept {
  if (std::exchange(is_open_, false)) connection_.session().reset(id_, error);
  detach_exchange();
  connection_.schedule_flush();
}

void http2_stream::close() noexcept {
  is_open_ = false;
  detach_exchange();
  connection_.remove_output(rest_.size() + pending_.size());
  note_head_sent();
  rest_ = {};
  pending_.clear();
}

void http2_stream::detach_exchange() noexcept {
  state_ = state::sending;
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->detach();
  release_request();
}

}  // namespace gyre::http::detail
