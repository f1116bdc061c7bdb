// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/detail/pipeline.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/detail/coroutine_loop.hpp>
#include <gyre/net/tcp_connection.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace gyre::engines::detail {
namespace {

// Output above this size is sent at once, so that a turn of many requests does not need as much
// memory as all of them.
constexpr std::size_t flush_size = 64 * 1024;
// No request is admitted while this many bytes wait for the kernel.
constexpr std::size_t high_water = std::size_t{1} << 20;
// A client with a wrong password must not ask the server with every call.
constexpr std::chrono::seconds refusal_time{1};
// Requests of the protocol itself, besides the admitted ones.
constexpr std::size_t own_entries = 64;

net::tcp_client_options options_of_client(net::tcp_client_options options,
                                          const pipeline_options& own) {
  options.name = own.name;
  options.reconnect = true;
  options.connections.high_water = high_water;
  // Admission bounds the output: a request may be larger than a limit of bytes.
  options.connections.output_limit = std::numeric_limits<std::size_t>::max() / 2;
  options.connections.input_limit = std::numeric_limits<std::size_t>::max() / 2;
  options.connections.message_timeout = duration::zero();  // `reply_timeout` instead
  return options;
}

}  // namespace

pipeline::pipeline(event_loop& loop, net::host_port server, net::tcp_client_options connecting,
                   const pipeline_options& options)
    : loop_(loop),
      server_(std::move(server)),
      options_(options),
      has_layer_(connecting.transport != nullptr),
      entries_(options.max_in_flight + own_entries),
      admissions_(options.max_in_flight),
      health_timer_(loop, [this] { check_health(); }),
      flush_([](std::shared_ptr<pipeline> self, gyre::detail::release_point) { self->flush(); }) {
  client_.emplace(loop, server_, options_of_client(std::move(connecting), options_));
  client_->on_connection([this](net::tcp_connection&) { on_connected(); })
      .on_message([this](net::tcp_connection&, io::input& input) { on_input(input); })
      .on_low_water([this](net::tcp_connection&) { writable_.set(); })
      .on_high_water([](net::tcp_connection&, std::size_t) {})
      .on_close([this](net::tcp_connection& ended, std::error_code why) {
        on_closed(why, ended.metrics().bytes_sent);
      });
  client_->on_connect_failed([this](std::error_code why, std::size_t attempts, bool) {
    on_connect_failed(why, attempts);
  });
}

std::string pipeline::describe() const {
  return std::string(options_.name) + ' ' + server_.to_string();
}

// --- Calls ---

bool pipeline::can_append() const noexcept { return state_ == state::ready && writable_.is_set(); }

bool pipeline::try_admit() noexcept { return can_append() && admissions_.try_acquire(); }

task<> pipeline::admit() {
  const task_context& context = co_await gyre::detail::this_context();
  if (context.stop.stop_requested()) gyre::detail::throw_cancelled(context);
  net::detail::require_loop(loop_, context, options_.name);
  const std::shared_ptr<pipeline> self = shared_from_this();
  if (waiting_ >= options_.max_waiting) {
    throw std::system_error(make_error_code(io::errc::waiting_limit), describe());
  }
  struct count_waiting {
    std::size_t& count;
    explicit count_waiting(std::size_t& waiting) noexcept : count(waiting) { ++count; }
    count_waiting& operator=(count_waiting&&) = delete;
    ~count_waiting() { --count; }
  } const counted(waiting_);

  semaphore_permit admission = co_await admissions_.permit();
  while (!can_append()) {
    if (state_ == state::closed) throw_closed();
    if (state_ == state::ready) {
      co_await writable_.wait();
      continue;
    }
    connect();
    if (attempt_ == nullptr) attempt_ = std::make_shared<attempt>();
    const std::shared_ptr<attempt> shared = attempt_;
    co_await shared->done.wait();
    if (shared->error) std::rethrow_exception(shared->error);
  }
  admission.forget();
}

void pipeline::throw_closed() const {
  throw std::system_error(make_error_code(io::errc::not_open), describe());
}

void pipeline::reserve_entries(std::size_t count) {
  if (count <= entries_.size() - count_) return;
  std::ranges::rotate(entries_, entries_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
  entries_.resize(std::max(2 * entries_.size(), count_ + count));
}

void pipeline::enter(pending_reply* request, std::uint64_t position) noexcept {
  add_entry({request, position, true});
}

void pipeline::enter_own(pending_reply* request, std::uint64_t position) {
  reserve_entries(1);
  add_entry({request, position, false});
}

void pipeline::add_entry(const entry& added) noexcept {
  if (count_ == 0) note_input();  // the time to reply begins
  at(count_++) = added;
  if (output_.size() >= flush_size) return flush();
  flush_.post(loop_, shared_from_this());
}

pipeline::entry& pipeline::at(std::size_t index) noexcept {
  index += first_;
  return entries_[index < entries_.size() ? index : index - entries_.size()];
}

void pipeline::forget(pending_reply& request) noexcept {
  for (std::size_t index = 0; index < count_; ++index) {
    if (entry& each = at(index); each.request == &request) each.request = nullptr;
  }
}

std::optional<pending_reply*> pipeline::front() noexcept {
  if (count_ == 0) return std::nullopt;
  return at(0).request;
}

void pipeline::pop_front() noexcept {
  const bool was_admitted = at(0).is_admitted;
  if (++first_ == entries_.size()) first_ = 0;
  --count_;
  if (was_admitted) admissions_.release();
}

void pipeline::flush() noexcept {
  net::tcp_connection* const connection = client_->connection();
  if (output_.empty() || connection == nullptr) return;
  given_ += output_.size();
  try {
    connection->send(output_.bytes());
    output_.clear();
  } catch (...) {
    connection->abort(std::make_error_code(std::errc::not_enough_memory));
    return;
  }
  if (connection->pending_output() >= high_water) writable_.reset();
}

// --- The connection ---

void pipeline::connect() {
  if (state_ != state::idle) return;
  if (refusal_ && loop_.now() < earliest_attempt_) std::rethrow_exception(refusal_);
  refusal_ = nullptr;
  client_->connect();
  state_ = state::connecting;
}

void pipeline::on_connected() {
  given_ = 0;
  output_.clear();
  end_reason_ = {};
  writable_.set();
  note_input();
  if (options_.ping_interval > duration::zero()) start_health_timer();
  begin();
}

void pipeline::finish_login(std::exception_ptr error) {
  if (error == nullptr) {
    state_ = state::ready;
    end_attempt(nullptr);
    return;
  }
  refusal_ = error;
  earliest_attempt_ = loop_.now() + refusal_time;
  client_->disconnect();
  state_ = state::idle;
  end_attempt(std::move(error));
}

void pipeline::end_attempt(std::exception_ptr error) {
  const std::shared_ptr<attempt> ended = std::exchange(attempt_, nullptr);
  if (ended == nullptr) return;
  ended->error = std::move(error);
  ended->done.set();
}

void pipeline::on_input(io::input& input) {
  note_input();
  read(input);
}

void pipeline::fail(std::error_code error) {
  end_reason_ = error;
  if (net::tcp_connection* const connection = client_->connection()) connection->abort(error);
}

void pipeline::on_closed(std::error_code why, std::uint64_t bytes_sent) {
  health_timer_.cancel();
  // A layer's bytes on the network are others than those of the requests.
  const std::uint64_t sent = has_layer_ ? given_ : bytes_sent;
  if (end_reason_) why = end_reason_;
  lose_entries(error_of_end(why), sent);
  output_.clear();
  writable_.set();  // who waits finds out that there is no connection
  if (state_ == state::ready) state_ = state::connecting;
}

void pipeline::on_connect_failed(std::error_code why, std::size_t attempts) {
  if (state_ != state::connecting || attempts % options_.attempts != 0) return;
  if (!needs_connection()) {
    client_->disconnect();
    state_ = state::idle;
  }
  end_attempt(std::make_exception_ptr(std::system_error(why, describe())));
}

std::exception_ptr pipeline::error_of_end(std::error_code why) const noexcept {
  try {
    const bool is_own = why.category() == options_.lost.category();
    std::string what = describe();
    if (why && !is_own) what.append(" (").append(why.message()).append(")");
    return std::make_exception_ptr(std::system_error(is_own ? why : options_.lost, what));
  } catch (...) {
    return std::current_exception();
  }
}

void pipeline::lose_entries(const std::exception_ptr& error, std::uint64_t sent) noexcept {
  while (count_ > 0) {
    const entry lost = at(0);
    pop_front();
    if (lost.request != nullptr) lost.request->lose(error, lost.position < sent);
  }
}

void pipeline::close() noexcept {
  if (std::exchange(state_, state::closed) == state::closed) return;
  health_timer_.cancel();
  client_->disconnect();
  std::exception_ptr error;
  try {
    error =
        std::make_exception_ptr(std::system_error(make_error_code(io::errc::closed), describe()));
  } catch (...) {
    error = std::current_exception();
  }
  lose_entries(error, given_);
  writable_.set();
  end_attempt(std::move(error));
}

// --- Health ---

void pipeline::note_input() noexcept { last_input_ = loop_.now(); }

void pipeline::start_health_timer() {
  health_timer_.start_every(std::min(options_.ping_interval, options_.reply_timeout) / 4 +
                            std::chrono::milliseconds{1});
}

void pipeline::check_health() {
  const auto silence = loop_.now() - last_input_;
  if (count_ > 0) {
    if (silence >= options_.reply_timeout) fail(options_.no_reply);
  } else if (silence >= options_.ping_interval) {
    ping();
  }
}

}  // namespace gyre::engines::detail
