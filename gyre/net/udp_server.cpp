// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/udp_server.hpp>

#include <gyre/base/detail/relaxed_counter.hpp>
#include <gyre/exec/detail/deferred_release.hpp>
#include <gyre/exec/timer.hpp>
#include <gyre/io/backend.hpp>
#include <gyre/io/descriptor.hpp>
#include <gyre/io/request.hpp>
#include <gyre/net/datagram_batch.hpp>
#include <gyre/net/detail/callback_gate.hpp>
#include <gyre/net/detail/datagram_message.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/detail/system_sockets.hpp>
#include <gyre/net/socket.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace gyre::net {

/// The state that all loops share. Kept alive by the server and by the functions that the server
/// has posted.
class udp_server::core : public std::enable_shared_from_this<core> {
 public:
  core(std::vector<event_loop*> loops, udp_server_options settings);

  void on_datagram(datagram_function callback);
  void listen(const endpoint& local);
  endpoint local_endpoint(std::size_t index) const;
  void start();
  void stop(move_only_function<void()> callback);
  void abandon() noexcept;
  udp_server_metrics metrics() const;
  /// Called by each socket when it has stopped.
  void on_socket_stopped();

  const udp_server_options options;
  datagram_function received;  // constant once a socket is open

 private:
  std::shared_ptr<detail::udp_server_socket> shared(
      detail::udp_server_socket& server_socket) noexcept {
    return std::shared_ptr<detail::udp_server_socket>(shared_from_this(), &server_socket);
  }
  template <class Function>
  void post(detail::udp_server_socket& server_socket, Function function);
  void post_stop_callback(move_only_function<void()> callback);

  const std::vector<event_loop*> loops_;
  detail::callback_gate gate_;  // guards the callbacks of stop(), on the first loop
  mutable std::mutex mutex_;    // guards the members below
  std::vector<std::unique_ptr<detail::udp_server_socket>> sockets_;
  std::vector<endpoint> endpoints_;
  std::size_t running_sockets_ = 0;
  bool is_started_ = false;
  bool is_stopping_ = false;
  std::vector<move_only_function<void()>> when_stopped_;
};

namespace detail {

/// One socket of a udp_server, on one of its loops.
///
/// Thread-safety: members belong to the loop's thread, but for those marked for any thread.
class udp_server_socket final : public udp_server::channel {
 public:
  /// Makes a socket of the server from `local_socket`, which must be bound. May be called from any
  /// thread, like the destructor of a closed socket.
  udp_server_socket(udp_server::core& server, event_loop& loop, socket local_socket);
  ~udp_server_socket() = default;

  event_loop& loop() const noexcept { return loop_; }
  callback_gate& gate() noexcept { return gate_; }
  int fd() const noexcept { return registration_ ? registration_->descriptor.fd() : -1; }

  /// Begins to receive. Throws std::bad_alloc, and what attaching throws.
  void open();
  bool send_to(std::span<const std::byte> bytes, const endpoint& peer);
  /// Stops receiving, and closes the socket when all waiting replies are sent.
  void stop();
  /// Closes the gate from any thread: no handler runs any more when this returns. The loop closes
  /// the socket, now or later.
  static void abandon(std::shared_ptr<udp_server_socket> server_socket) noexcept;

  /// May be called from any thread.
  void add_to(udp_server_metrics& sum) const noexcept;

 private:
  // The datagrams to send: their bytes, one after the other, and their receivers.
  struct replies {
    struct reply {
      std::size_t offset;
      std::size_t size;
      endpoint peer;
    };
    std::vector<std::byte> bytes;
    std::vector<reply> entries;
    std::size_t sent_count = 0;

    /// Adds a copy of a datagram. Throws std::bad_alloc, and then adds nothing.
    void add(std::span<const std::byte> content, const endpoint& peer) {
      const std::size_t offset = bytes.size();
      bytes.insert(bytes.end(), content.begin(), content.end());
      try {
        entries.push_back({offset, content.size(), peer});
      } catch (...) {
        bytes.resize(offset);
        throw;
      }
    }
    bool done() const noexcept { return sent_count == entries.size(); }
    const reply& next() const noexcept { return entries[sent_count]; }
    std::size_t memory() const noexcept { return bytes.size() + entries.size() * sizeof(reply); }
    void clear() noexcept {
      bytes.clear();
      entries.clear();
      sent_count = 0;
    }
  };
  template <class Request>
  struct socket_request final : Request {
    socket_request(io::handle& handle, udp_server_socket& owner,
                   io::request::function callback) noexcept
        : Request(handle, {}, callback), self(&owner) {}
    udp_server_socket* self;
  };
  using receive_some = socket_request<io::receive_messages_request>;
  using send_some = socket_request<io::send_messages_request>;
  // The descriptor, requests and timer of an open socket, which belong to the loop's thread.
  struct registration {
    registration(udp_server_socket& server_socket, unique_fd fd);
    io::descriptor descriptor;
    receive_some receive_request;
    send_some send_request;
    timer retry_timer;
  };
  static constexpr std::size_t max_sent = 64;  // the maximum number of datagrams of one call
  // The maximum number of batches before other work of the loop.
  static constexpr int max_batches = 4;

  static void on_received(io::request& request, io::result result);
  static void on_sent(io::request& request, io::result result);
  void receive(std::optional<io::result> result);
  bool deliver_batch();
  void deliver_rest();
  void flush() noexcept;
  std::span<mmsghdr> describe_unsent() noexcept;
  void note_send_result(io::result result) noexcept;
  void close() noexcept;
  void close_when_done();

  udp_server::core& core_;
  event_loop& loop_;
  callback_gate gate_;
  socket unopened_socket_;  // the socket before open()
  std::optional<registration> registration_;
  std::optional<datagram_batch> batch_;
  std::size_t delivered_count_ = 0;  // the number of datagrams of batch_ that were delivered
  // Replies are added to `new_replies_` while the kernel is not ready to take those of
  // `sent_replies_`.
  replies new_replies_;
  replies sent_replies_;
  std::array<mmsghdr, max_sent> messages_;
  std::array<iovec, max_sent> pieces_;
  std::array<control_buffer, max_sent> controls_;
  bool is_delivering_ = false;
  bool is_stopping_ = false;
  gyre::detail::deferred_release<udp_server_socket> release_{
      [](std::shared_ptr<udp_server_socket> server_socket, gyre::detail::release_point) {
        server_socket->close();
      }};
  gyre::detail::published_counter received_count_, sent_count_, bytes_received_, bytes_sent_,
      truncated_count_, refused_count_, errors_;
};

udp_server_socket::udp_server_socket(udp_server::core& server, event_loop& loop,
                                     socket local_socket)
    : core_(server), loop_(loop), unopened_socket_(std::move(local_socket)) {}

udp_server_socket::registration::registration(udp_server_socket& server_socket, unique_fd fd)
    : descriptor(server_socket.loop_, std::move(fd), io::handle_kind::socket),
      receive_request(descriptor.handle(), server_socket, &udp_server_socket::on_received),
      send_request(descriptor.handle(), server_socket, &udp_server_socket::on_sent),
      retry_timer(server_socket.loop_, [&server_socket] { server_socket.receive(std::nullopt); }) {}

void udp_server_socket::open() {
  if (is_stopping_) return;
  batch_.emplace(core_.options.batch, core_.options.max_datagram);
  registration_.emplace(*this, unopened_socket_.release());
  receive(std::nullopt);
}

// --- Receiving ---

void udp_server_socket::on_received(io::request& request, io::result result) {
  static_cast<receive_some&>(request).self->receive(result);
}

// Receives and delivers batches, beginning with `result`, until the socket must wait or the loop
// must serve other operations.
void udp_server_socket::receive(std::optional<io::result> result) {
  using namespace std::chrono_literals;
  const callback_gate::pass gate_pass(gate_);
  if (!gate_pass) return;
  if (delivered_count_ < batch_->size() && !deliver_batch()) return;
  for (int batches = 0; batches < max_batches; ++batches) {
    if (!result) {
      registration_->receive_request.messages = batch_->prepare_to_receive();
      result = registration_->descriptor.start(registration_->receive_request);
      if (!result) return;
    }
    if (!*result) {
      errors_.add(1);
      return registration_->retry_timer.start_after(1ms);
    }
    batch_->received(result->count());
    delivered_count_ = 0;
    if (!deliver_batch()) return;
    result.reset();
  }
  registration_->retry_timer.start_after(0ns);
}

// Delivers the datagrams of the batch. Returns whether to continue receiving. After an exception,
// which the loop gets, the next turn delivers the rest.
bool udp_server_socket::deliver_batch() {
  const auto end = [this] {
    is_delivering_ = false;
    if (registration_) flush();
    return registration_ && !is_stopping_;
  };
  is_delivering_ = true;
  try {
    deliver_rest();
  } catch (...) {
    if (end()) registration_->retry_timer.start_after({});
    throw;
  }
  return end();
}

void udp_server_socket::deliver_rest() {
  while (delivered_count_ < batch_->size()) {
    const datagram datagram = (*batch_)[delivered_count_++];
    if (datagram.truncated) {
      truncated_count_.add(1);
      continue;
    }
    received_count_.add(1);
    bytes_received_.add(datagram.bytes.size());
    if (core_.received) core_.received(*this, datagram.bytes, datagram.peer);
    if (!registration_ || is_stopping_ || !gate_.is_open()) return;
  }
}

// --- Sending ---

bool udp_server_socket::send_to(std::span<const std::byte> bytes, const endpoint& peer) {
  if (!registration_ || is_stopping_) return false;
  const std::size_t memory =
      new_replies_.memory() + sent_replies_.memory() + sizeof(replies::reply);
  const std::size_t limit = core_.options.output_limit;
  if (bytes.size() > limit || memory > limit - bytes.size()) {
    refused_count_.add(1);
    return false;
  }
  new_replies_.add(bytes, peer);
  if (!is_delivering_ || new_replies_.entries.size() >= max_sent) flush();
  return true;
}

void udp_server_socket::flush() noexcept {
  while (!registration_->send_request.under_way()) {
    if (sent_replies_.done()) {
      sent_replies_.clear();
      if (new_replies_.entries.empty()) return;
      std::swap(sent_replies_, new_replies_);
    }
    const std::span<mmsghdr> headers = describe_unsent();
    if (sent_replies_.next().peer.is_unix()) {
      note_send_result(detail::system::send_without_waiting(fd(), headers));
      continue;
    }
    registration_->send_request.messages = headers;
    const std::optional<io::result> result =
        registration_->descriptor.start(registration_->send_request);
    if (result) note_send_result(*result);
  }
}

std::span<mmsghdr> udp_server_socket::describe_unsent() noexcept {
  const auto replies_left = std::span(sent_replies_.entries).subspan(sent_replies_.sent_count);
  const std::size_t count = std::min(replies_left.size(), max_sent);
  for (std::size_t i = 0; i < count; ++i) {
    replies::reply& reply = replies_left[i];
    pieces_[i] = {sent_replies_.bytes.data() + reply.offset, reply.size};
    set_message(messages_[i].msg_hdr, pieces_[i], reply.peer, reply.peer.size());
    write_control(messages_[i].msg_hdr, controls_[i], reply.peer);
  }
  return std::span(messages_).first(count);
}

void udp_server_socket::on_sent(io::request& request, io::result result) {
  udp_server_socket& self = *static_cast<send_some&>(request).self;
  const callback_gate::pass gate_pass(self.gate_);
  if (!gate_pass) return;
  self.note_send_result(result);
  self.flush();
  if (self.is_stopping_) self.close_when_done();
}

// Notes the result of sending. An error belongs to the first unsent reply, which is dropped.
void udp_server_socket::note_send_result(io::result result) noexcept {
  if (!result) {
    (result.would_block() ? refused_count_ : errors_).add(1);
    ++sent_replies_.sent_count;
    return;
  }
  for (std::size_t i = 0; i < result.count(); ++i) {
    bytes_sent_.add(sent_replies_.entries[sent_replies_.sent_count++].size);
  }
  sent_count_.add(result.count());
}

// --- Ending ---

void udp_server_socket::stop() {
  if (std::exchange(is_stopping_, true)) return;
  if (registration_) {
    registration_->descriptor.cancel(registration_->receive_request);
    registration_->retry_timer.cancel();
    flush();
  }
  close_when_done();
}

void udp_server_socket::close_when_done() {
  if (registration_ && registration_->send_request.under_way()) return;
  close();
  core_.on_socket_stopped();
}

void udp_server_socket::close() noexcept {
  registration_.reset();
  unopened_socket_.close();
}

void udp_server_socket::abandon(std::shared_ptr<udp_server_socket> server_socket) noexcept {
  udp_server_socket& target = *server_socket;
  const bool is_on_loop_thread = target.loop_.in_loop_thread();
  target.gate_.close(is_on_loop_thread);
  if (is_on_loop_thread) target.close();
  target.release_.post(target.loop_, std::move(server_socket));
}

void udp_server_socket::add_to(udp_server_metrics& sum) const noexcept {
  sum.received += received_count_.get();
  sum.sent += sent_count_.get();
  sum.bytes_received += bytes_received_.get();
  sum.bytes_sent += bytes_sent_.get();
  sum.truncated += truncated_count_.get();
  sum.refused += refused_count_.get();
  sum.errors += errors_.get();
}

}  // namespace detail

// --- State shared by all loops ---

udp_server::core::core(std::vector<event_loop*> loops, udp_server_options settings)
    : options(std::move(settings)), loops_(std::move(loops)) {
  detail::require_loops(loops_, "gyre::net::udp_server");
  // backend_of() throws if the poller of a loop does no I/O.
  for (event_loop* loop : loops_) static_cast<void>(io::backend_of(*loop));
}

template <class Function>
void udp_server::core::post(detail::udp_server_socket& server_socket, Function function) {
  server_socket.loop().post([target = shared(server_socket), function] {
    const detail::callback_gate::pass gate_pass(target->gate());
    if (gate_pass) function(*target);
  });
}

void udp_server::core::on_datagram(datagram_function callback) {
  const std::lock_guard lock(mutex_);
  if (is_started_)
    throw std::logic_error("gyre::net::udp_server: functions are set before start()");
  received = std::move(callback);
}

void udp_server::core::listen(const endpoint& local) {
  endpoint address = local;
  std::vector<std::unique_ptr<detail::udp_server_socket>> sockets;
  for (event_loop* loop : loops_) {
    socket result = socket::open(local.family(), socket_type::datagram);
    if (local.is_ip()) {
      if (options.reuse_address) result.set_reuse_address(true);
      if (loops_.size() > 1) result.set_reuse_port(true);
      if (local.family() == address_family::ipv6) result.set_v6_only(options.ipv6_only);
    }
    if (options.receive_buffer > 0) {
      result.set_receive_buffer(static_cast<std::size_t>(options.receive_buffer));
    }
    if (options.send_buffer > 0) {
      result.set_send_buffer(static_cast<std::size_t>(options.send_buffer));
    }
    detail::bind_listener(result, address, true);
    address = result.local_endpoint();  // the other sockets get the port of the first one
    if (options.packet_info) detail::note_sources(result, address);
    sockets.push_back(std::make_unique<detail::udp_server_socket>(*this, *loop, std::move(result)));
    if (local.is_unix()) break;
  }
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  endpoints_.push_back(address);
  for (auto& socket : sockets) {
    detail::udp_server_socket& server_socket = *sockets_.emplace_back(std::move(socket));
    ++running_sockets_;
    if (is_started_) post(server_socket, [](detail::udp_server_socket& target) { target.open(); });
  }
}

endpoint udp_server::core::local_endpoint(std::size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= endpoints_.size()) {
    throw std::out_of_range("gyre::net::udp_server::local_endpoint: before that listen()");
  }
  return endpoints_[index];
}

void udp_server::core::start() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_started_, true))
    throw std::logic_error("gyre::net::udp_server: started twice");
  for (auto& socket : sockets_)
    post(*socket, [](detail::udp_server_socket& server_socket) { server_socket.open(); });
}

// Adds `callback` last: afterwards `callback` may run at any time on the first loop, and may
// destroy the server. Only the reference keeps this object then.
void udp_server::core::stop(move_only_function<void()> callback) {
  const auto self = shared_from_this();
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;  // sockets_ is constant from now on
  }
  for (auto& socket : sockets_)
    post(*socket, [](detail::udp_server_socket& server_socket) { server_socket.stop(); });
  if (!callback) return;
  {
    const std::lock_guard lock(mutex_);
    if (running_sockets_ > 0) return when_stopped_.push_back(std::move(callback));
  }
  post_stop_callback(std::move(callback));
}

void udp_server::core::on_socket_stopped() {
  std::vector<move_only_function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (--running_sockets_ > 0) return;
    callbacks.swap(when_stopped_);
  }
  for (auto& callback : callbacks) post_stop_callback(std::move(callback));
}

// Posts a callback of stop() as a task of its own, so that the others are called even if it throws.
void udp_server::core::post_stop_callback(move_only_function<void()> callback) {
  loops_.front()->post([self = shared_from_this(), callback = std::move(callback)]() mutable {
    const detail::callback_gate::pass gate_pass(self->gate_);
    if (gate_pass) callback();
  });
}

void udp_server::core::abandon() noexcept {
  const auto socket_at = [this](std::size_t index) -> detail::udp_server_socket* {
    const std::lock_guard lock(mutex_);
    return index < sockets_.size() ? sockets_[index].get() : nullptr;
  };
  // The mutex is not held: closing may wait for a handler, which may call metrics().
  for (std::size_t i = 0; detail::udp_server_socket* const server_socket = socket_at(i); ++i) {
    detail::udp_server_socket::abandon(shared(*server_socket));
  }
  gate_.close(loops_.front()->in_loop_thread());
}

udp_server_metrics udp_server::core::metrics() const {
  const std::lock_guard lock(mutex_);
  udp_server_metrics sum;
  for (const auto& socket : sockets_) socket->add_to(sum);
  return sum;
}

// --- The server ---

udp_server::udp_server(event_loop& loop, udp_server_options options)
    : udp_server(std::vector<event_loop*>{&loop}, std::move(options)) {}
udp_server::udp_server(std::vector<event_loop*> loops, udp_server_options options)
    : core_(std::make_shared<core>(std::move(loops), std::move(options))) {}
udp_server::~udp_server() { core_->abandon(); }

udp_server& udp_server::on_datagram(datagram_function callback) {
  core_->on_datagram(std::move(callback));
  return *this;
}

void udp_server::listen(const endpoint& local) { core_->listen(local); }
endpoint udp_server::local_endpoint(std::size_t index) const {
  return core_->local_endpoint(index);
}
void udp_server::start() { core_->start(); }
void udp_server::stop(move_only_function<void()> callback) { core_->stop(std::move(callback)); }
const std::string& udp_server::name() const noexcept { return core_->options.name; }
udp_server_metrics udp_server::metrics() const noexcept { return core_->metrics(); }

bool udp_server::channel::send_to(std::span<const std::byte> bytes, const endpoint& peer) {
  return static_cast<detail::udp_server_socket*>(this)->send_to(bytes, peer);
}
event_loop& udp_server::channel::loop() const noexcept {
  return static_cast<const detail::udp_server_socket*>(this)->loop();
}
int udp_server::channel::fd() const noexcept {
  return static_cast<const detail::udp_server_socket*>(this)->fd();
}
endpoint udp_server::channel::local_endpoint() const { return socket_ref(fd()).local_endpoint(); }

}  // namespace gyre::net
