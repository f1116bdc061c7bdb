// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/detail/pipeline.hpp>

#include <gyre/engines/detail/connection_settings.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/detail/cancelled.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace gyre::engines::detail {
namespace {

// Output above this size is sent at once, so that a turn of many requests does not need as much
// memory as all of them.
constexpr std::size_t flush_size = 64 * 1024;
// Output below both limits may wait for the next reply, to be sent together with further requests.
constexpr std::size_t max_gathered_bytes = 8 * 1024;
constexpr std::size_t max_gathered = 16;
// Output waits only if the server has at least this many sent requests for each one that waits, so
// that the server never becomes idle by the wait.
constexpr std::size_t sent_for_each_gathered = 4;
// No request is admitted while this many bytes wait for the kernel.
constexpr std::size_t high_water = std::size_t{1} << 20;
// The time without another attempt after a refused login: a client with a wrong password must not
// log in again with every call.
constexpr std::chrono::seconds refusal_time{1};
// The initial capacity of the entries: the admitted requests (at most), and the client's own ones.
constexpr std::size_t initial_entries = 1024;
constexpr std::size_t own_entries = 64;

net::tcp_client_options options_of_client(net::tcp_client_options options,
                                          const pipeline_options& settings) {
  options.name = settings.name;
  options.reconnect = true;
  options.connections.high_water = high_water;
  // Other mechanisms replace these limits: admission bounds the output, in which a limit of bytes
  // would refuse a large request, and reply_timeout ends a silent connection.
  apply_client_settings(options.connections);
  options.connections.keep_alive = true;  // keep-alive finds a dead peer while a request waits long
  return options;
}

}  // namespace

pipeline::pipeline(event_loop& loop, net::host_port server, net::tcp_client_options client_options,
                   const pipeline_options& options)
    : loop_(loop),
      server_(std::move(server)),
      options_(options),
      entries_(std::min(options.max_in_flight, initial_entries) + own_entries),
      admissions_(options.max_in_flight),
      health_timer_(loop, [this] { check_health(); }),
      retry_timer_(loop, [this] { retry_refused_login(); }) {
  client_.emplace(loop, server_, options_of_client(std::move(client_options), options_));
  // on_high_water is not set: its handler could cancel on_low_water, for which write_event_ waits.
  client_->on_connection([this](net::tcp_connection&) { on_connected(); })
      .on_message([this](net::tcp_connection&, io::input& input) { on_input(input); })
      .on_low_water([this](net::tcp_connection&) { write_event_.set(); })
      .on_close([this](net::tcp_connection&, std::error_code reason) { on_closed(reason); });
  client_->on_connect_failed([this](std::error_code reason, std::size_t, bool) {
    if (state_ != state::connecting) return;
    on_attempt_failed(std::make_exception_ptr(std::system_error(reason, describe())));
  });
}

std::string pipeline::describe() const {
  return std::string(options_.name) + ' ' + server_.to_string();
}

// --- Calls ---

bool pipeline::can_append() const noexcept {
  return state_ == state::ready && write_event_.is_set() && unfenced_.is_set();
}

bool pipeline::try_admit() noexcept { return can_append() && admissions_.try_acquire(); }

task<> pipeline::admit() {
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop_, context, options_.name);
  const std::shared_ptr<pipeline> self = shared_from_this();
  if (waiting_calls_ >= options_.max_waiting) {
    throw std::system_error(make_error_code(io::errc::waiting_limit), describe());
  }
  struct count_waiting {
    std::size_t& count;
    explicit count_waiting(std::size_t& counter) noexcept : count(counter) { ++count; }
    count_waiting& operator=(count_waiting&&) = delete;
    ~count_waiting() { --count; }
  } const count_guard(waiting_calls_);

  if (state_ == state::closed) throw_closed(io::errc::not_open);
  for (;;) {
    if (state_ == state::closed) throw_closed(io::errc::closed);
    if (state_ != state::ready) {
      connect();
      if (attempt_ == nullptr) attempt_ = std::make_shared<attempt>();
      const std::shared_ptr<attempt> current_attempt = attempt_;
      co_await current_attempt->end_event.wait();
      if (current_attempt->error) std::rethrow_exception(current_attempt->error);
      continue;
    }
    semaphore_permit admission = co_await admissions_.permit();
    while (state_ == state::ready && !can_append()) {
      co_await unfenced_.wait();
      co_await write_event_.wait();
    }
    if (state_ != state::ready) continue;
    admission.forget();
    co_return;
  }
}

task<> pipeline::wait_writable() {
  const std::shared_ptr<pipeline> self = shared_from_this();
  co_await write_event_.wait();
}

void pipeline::throw_closed(io::errc code) const {
  if (end_error_) std::rethrow_exception(end_error_);
  throw std::system_error(make_error_code(code), describe());
}

void pipeline::reserve_entries(std::size_t count) {
  if (count <= entries_.size() - count_) return;
  std::ranges::rotate(entries_, entries_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
  entries_.resize(std::max(2 * entries_.size(), count_ + count));
}

std::uint64_t pipeline::enter_request(pending_reply* request, std::uint64_t position) noexcept {
  return add_entry({request, position, true});
}

std::uint64_t pipeline::enter_internal_request(pending_reply* request, std::uint64_t position) {
  reserve_entries(1);
  return add_entry({request, position, false});
}

std::uint64_t pipeline::add_entry(const entry& new_entry) noexcept {
  if (count_ == 0) note_input();  // the time limit of the reply begins
  const std::uint64_t number = first_number_ + count_;
  at(count_++) = new_entry;
  ++unsent_count_;
  post_flush();
  return number;
}

void pipeline::request_flush() noexcept {
  is_flush_requested_ = true;
  post_flush();
}

void pipeline::post_flush() noexcept {
  if (output_.size() >= flush_size) return flush();
  const bool is_posted = posted_flush_.post(loop_, weak_from_this(), [this] {
    if (!may_gather()) flush();
  });
  if (!is_posted) flush();
}

// Whether the output may wait for more requests. If it may, the next reply calls this again.
bool pipeline::may_gather() const noexcept {
  if (!options_.gathers || is_flush_requested_ || state_ != state::ready) return false;
  const bool is_short = output_.size() < max_gathered_bytes && unsent_count_ < max_gathered;
  return is_short && unsent_count_ * sent_for_each_gathered < count_ - unsent_count_;
}

pipeline::entry& pipeline::at(std::size_t index) noexcept {
  index += first_;
  return entries_[index < entries_.size() ? index : index - entries_.size()];
}

void pipeline::abandon(std::uint64_t number, pending_reply* successor) noexcept {
  if (number >= first_number_)
    at(static_cast<std::size_t>(number - first_number_)).request = successor;
}

std::optional<pending_reply*> pipeline::front() const noexcept {
  if (count_ == 0) return std::nullopt;
  return entries_[first_].request;
}

void pipeline::pop_front() noexcept {
  const bool was_admitted = at(0).is_admitted;
  if (++first_ == entries_.size()) first_ = 0;
  --count_;
  unsent_count_ = std::min(unsent_count_, count_);  // a faulty server may reply to unsent requests
  ++first_number_;
  if (was_admitted) admissions_.release();
}

void pipeline::drop_output() noexcept {
  output_.clear();
  unsent_count_ = 0;
  is_flush_requested_ = false;
}

void pipeline::flush() noexcept {
  net::tcp_connection* const connection = client_->connection();
  if (output_.empty() || connection == nullptr) return;
  flushed_bytes_ += output_.size();
  unsent_count_ = 0;
  is_flush_requested_ = false;
  try {
    connection->send(output_.bytes());
    output_.clear();
  } catch (...) {
    connection->abort(std::make_error_code(std::errc::not_enough_memory));
    return;
  }
  if (connection->pending_output() >= high_water) write_event_.reset();
}

// --- The connection ---

void pipeline::connect() {
  if (state_ != state::idle) return;
  if (refusal_ && loop_.now() < earliest_attempt_) std::rethrow_exception(refusal_);
  refusal_ = nullptr;
  failed_attempts_ = 0;
  client_->connect();
  state_ = state::connecting;
}

void pipeline::on_connected() {
  state_ = state::logging_in;
  flushed_bytes_ = 0;
  drop_output();
  end_reason_ = {};
  end_text_.clear();
  write_event_.set();
  unfenced_.set();
  note_input();
  try {
    start_health_timer();
    begin_login();
  } catch (...) {
    fail(std::make_error_code(std::errc::not_enough_memory));
  }
}

void pipeline::finish_login(std::exception_ptr error) {
  if (error == nullptr) {
    state_ = state::ready;
    failed_attempts_ = 0;
    end_attempt(nullptr);
    return;
  }
  if (options_.is_single_use) return close_with(error, error);
  refusal_ = error;
  earliest_attempt_ = loop_.now() + refusal_time;
  client_->disconnect();
  state_ = state::idle;
  end_attempt(std::move(error));
  if (needs_connection()) retry_timer_.start_after(refusal_time);
}

void pipeline::retry_refused_login() {
  if (!needs_connection()) return;
  earliest_attempt_ = loop_.now();
  connect();
}

void pipeline::end_attempt(std::exception_ptr error) {
  const std::shared_ptr<attempt> old_attempt = std::exchange(attempt_, nullptr);
  if (old_attempt == nullptr) return;
  old_attempt->error = std::move(error);
  old_attempt->end_event.set();
}

void pipeline::on_input(io::input& input) {
  note_input();
  read_input(input);
  if (options_.gathers && !output_.empty()) post_flush();
}

void pipeline::fail(std::error_code error, std::string_view text) noexcept {
  net::tcp_connection* const connection = client_->connection();
  if (connection == nullptr) return;
  end_reason_ = error;
  try {
    end_text_ = text;
  } catch (...) {
    end_text_.clear();  // without memory, the message lacks the server's text
  }
  connection->abort(error);
}

void pipeline::on_closed(std::error_code reason) {
  health_timer_.cancel();
  if (end_reason_) reason = end_reason_;
  const std::exception_ptr error = error_of_end(reason);
  lose_entries(error);
  drop_output();
  write_event_.set();  // waiting calls learn that there is no connection
  unfenced_.set();
  connection_ended();
  const state old_state = state_;
  if (old_state != state::logging_in && old_state != state::ready)
    return;  // the client has closed the connection
  state_ = state::connecting;
  if (old_state == state::logging_in) {
    client_->note_refusal();
    return on_attempt_failed(error);
  }
  if (options_.is_single_use) close_with(error, error);
}

void pipeline::on_attempt_failed(std::exception_ptr error) {
  if (++failed_attempts_ % options_.max_connect_attempts != 0) return;
  if (options_.is_single_use) return close_with(error, error);
  if (!needs_connection()) {
    client_->disconnect();
    state_ = state::idle;
  }
  end_attempt(std::move(error));
}

std::exception_ptr pipeline::error_of_end(std::error_code reason) const noexcept {
  try {
    const bool is_own = reason.category() == options_.lost.category();
    std::string message = describe();
    if (!end_text_.empty()) {
      message.append(" (").append(end_text_).append(")");
    } else if (reason && !is_own) {
      message.append(" (").append(reason.message()).append(")");
    }
    return std::make_exception_ptr(std::system_error(is_own ? reason : options_.lost, message));
  } catch (...) {
    return std::current_exception();
  }
}

void pipeline::lose_entries(const std::exception_ptr& error) noexcept {
  while (count_ > 0) {
    const entry front = at(0);
    pop_front();
    if (front.request != nullptr) front.request->lose(error, front.position < flushed_bytes_);
  }
}

void pipeline::close() noexcept {
  if (state_ == state::closed) return;
  std::exception_ptr error;
  try {
    error =
        std::make_exception_ptr(std::system_error(make_error_code(io::errc::closed), describe()));
  } catch (...) {
    error = std::current_exception();
  }
  close_with(error, nullptr);
}

void pipeline::close_with(const std::exception_ptr& error,
                          std::exception_ptr later_error) noexcept {
  state_ = state::closed;
  end_error_ = std::move(later_error);
  health_timer_.cancel();
  retry_timer_.cancel();
  client_->disconnect();
  lose_entries(error);
  write_event_.set();
  unfenced_.set();
  end_attempt(error);
}

// --- Health ---

void pipeline::note_input() noexcept {
  last_input_ = loop_.now();
  is_suspect_ = false;
}

void pipeline::start_health_timer() {
  const duration min_delay =
      std::min({options_.login_timeout, options_.reply_timeout, options_.ping_interval});
  health_timer_.start_every(min_delay / 4 + std::chrono::milliseconds{1});
}

void pipeline::check_health() {
  if (state_ == state::logging_in || count_ > 0) {
    const bool is_login = state_ == state::logging_in;
    if (!is_login && !is_reply_due()) return;
    if (!has_been_silent_for(is_login ? options_.login_timeout : options_.reply_timeout)) return;
    // One check may be wrong, as the loop itself may have been late while input waits: only the
    // second one in a row ends the connection.
    if (std::exchange(is_suspect_, true)) fail(options_.no_reply);
  } else if (has_been_silent_for(options_.ping_interval)) {
    try {
      ping();
    } catch (...) {
      fail(std::make_error_code(std::errc::not_enough_memory));
    }
  }
}

bool pipeline::has_been_silent_for(duration limit) const {
  return loop_.now() - last_input_ >= limit;
}

}  // namespace gyre::engines::detail
