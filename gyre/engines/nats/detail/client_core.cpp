// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/client_core.hpp>

#include <gyre/base/detail/system_random.hpp>
#include <gyre/engines/nats/detail/subject.hpp>
#include <gyre/engines/nats/error.hpp>
#include <gyre/io/buffer.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/as_expected.hpp>
#include <gyre/task/operation_cancelled.hpp>
#include <gyre/task/time_limit_error.hpp>
#include <gyre/task/with_timeout.hpp>
#include <gyre/trace/detail/event.hpp>
#include <gyre/trace/detail/named_wait.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::nats::detail {
namespace {

// The number of the subscription for replies. slot_table makes larger numbers only.
constexpr std::uint64_t inbox_sid = 1;
constexpr std::string_view header_version = "NATS/1.0\r\n";
constexpr std::string_view crlf = "\r\n";
constexpr int no_responders_status = 503;
// The bytes of a message's line without its subjects, at most.
constexpr std::size_t line_size = 64;
// The base of a key in the reply subject of a request: 64 bits have 13 digits in it.
constexpr int key_base = 36;
constexpr std::size_t key_size = 16;

std::string random_token() {
  constexpr std::string_view letters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t length = 22;  // 131 bits of randomness
  std::array<std::byte, 2 * length> random_bytes{};
  gyre::detail::require_random(random_bytes, server_link::client_name);
  std::string token;
  for (std::size_t i = 0; i < length; ++i) {
    const unsigned number = std::to_integer<unsigned>(random_bytes[2 * i]) << 8U |
                            std::to_integer<unsigned>(random_bytes[2 * i + 1]);
    token += letters[number % letters.size()];
  }
  return token;
}

// Writes the parts of a line into memory that was reserved for the whole line.
class line_writer {
 public:
  explicit line_writer(io::buffer& output, std::size_t size)
      : output_(output),
        begin_(reinterpret_cast<char*>(output.prepare(size).data())),
        end_(begin_),
        limit_(begin_ + size) {}
  line_writer& operator=(line_writer&&) = delete;
  ~line_writer() { output_.commit(static_cast<std::size_t>(end_ - begin_)); }

  line_writer& add(std::string_view text) noexcept {
    end_ = std::ranges::copy(text, end_).out;
    return *this;
  }
  line_writer& add(std::uint64_t number, int base = 10) noexcept {
    end_ = std::to_chars(end_, limit_, number, base).ptr;
    return *this;
  }

 private:
  io::buffer& output_;
  char* begin_;
  char* end_;
  char* limit_;
};

// Returns the subject that a permissions violation names in quotes.
std::string_view quoted(std::string_view text) noexcept {
  const std::size_t first = text.find('"');
  if (first == std::string_view::npos) return {};
  const std::size_t last = text.find('"', first + 1);
  if (last == std::string_view::npos) return {};
  return text.substr(first + 1, last - first - 1);
}

}  // namespace

// --- Requests in flight ---

client_core::pending_request::pending_request(client_core& core, std::string_view subject)
    : core_(core), subject_(subject) {
  if (core.requests_.size() >= core.options().max_in_flight) {
    throw std::system_error(make_error_code(io::errc::waiting_limit), core.describe());
  }
  key_ = core.requests_.insert(*this);
}

message client_core::pending_request::take_reply() {
  if (error_) std::rethrow_exception(error_);
  return std::move(reply_);
}

void client_core::pending_request::complete(message reply) noexcept {
  reply_ = std::move(reply);
  core_.requests_.erase(key_);
  end_event_.set();
}

void client_core::pending_request::fail(const std::exception_ptr& error) noexcept {
  error_ = error;
  core_.requests_.erase(key_);
  end_event_.set();
}

// --- Messages to be published ---

std::size_t client_core::outgoing_message::headers_size() const noexcept {
  if (headers.lines().empty()) return 0;
  const std::size_t missing_size = headers.lines().ends_with(crlf) ? 0 : crlf.size();
  return header_version.size() + headers.lines().size() + missing_size + crlf.size();
}

std::size_t client_core::outgoing_message::size() const noexcept {
  return line_size + subject.size() + reply.size() + reply_end.size() + headers_size() +
         payload.size();
}

// --- The client ---

client_core::client_core(event_loop& loop, const std::vector<std::string>& servers,
                         const client_options& options)
    : server_link(loop, servers, options),
      inbox_(options.inbox_prefix + '.' + random_token() + '.') {}

client_core& client_core::of(const shared& core) {
  if (core == nullptr) throw std::system_error(make_error_code(io::errc::not_open), client_name);
  return *core;
}

client_metrics client_core::metrics() const noexcept {
  return {.in_flight = requests_.size(),
          .waiting = waiting(),
          .subscriptions = subscriptions_.size(),
          .kept_bytes = kept_bytes(),
          .servers = known_servers(),
          .connected = logins(),
          .published = published_messages_,
          .published_bytes = published_bytes_,
          .received = received_messages_,
          .received_bytes = received_bytes_,
          .dropped = dropped_messages_,
          .late_replies = late_replies_,
          .server_errors = server_errors_};
}

task<> client_core::connect(shared core) {
  task<> login_task = of(core).log_in();
  co_await std::move(login_task);
}

task<> client_core::flush(shared core) {
  task<> ping_task = of(core).ping();
  co_await std::move(ping_task);
}

std::exception_ptr client_core::error_with(std::error_code code,
                                           std::string_view detail) const noexcept try {
  return std::make_exception_ptr(std::system_error(code, describe() + ": " + std::string(detail)));
} catch (...) {
  return std::current_exception();
}

// --- Publishing ---

void client_core::check_message(const outgoing_message& publication) const {
  check_subject(publication.subject);
  if (!publication.reply.empty() && publication.reply_end.empty()) check_subject(publication.reply);
  if (is_closed()) throw std::system_error(make_error_code(io::errc::not_open), describe());
  if (logins() == 0) return;  // no server is connected yet
  const std::size_t size = publication.headers_size() + publication.payload.size();
  if (size > server().max_payload) {
    throw std::system_error(make_error_code(errc::payload_too_large),
                            describe() + ": " + std::to_string(size) + " bytes, where " +
                                std::to_string(server().max_payload) + " are allowed");
  }
  if (!publication.headers.lines().empty() && !server().has_headers) {
    throw std::system_error(make_error_code(errc::headers_not_supported), describe());
  }
}

bool client_core::may_append_now(std::size_t size) const noexcept {
  return loop().in_loop_thread() && may_append(size);
}

void client_core::append_message(const outgoing_message& publication) {
  const std::string_view lines = publication.headers.lines();
  const std::size_t headers_size = publication.headers_size();
  {
    line_writer writer(output(), publication.size());
    writer.add(headers_size > 0 ? "HPUB " : "PUB ").add(publication.subject).add(" ");
    if (!publication.reply.empty())
      writer.add(publication.reply).add(publication.reply_end).add(" ");
    if (headers_size > 0) {
      writer.add(headers_size).add(" ").add(headers_size + publication.payload.size()).add(crlf);
      writer.add(header_version).add(lines);
      if (!lines.ends_with(crlf)) writer.add(crlf);
      writer.add(crlf);
    } else {
      writer.add(publication.payload.size()).add(crlf);
    }
    writer.add(publication.payload).add(crlf);
  }
  ++published_messages_;
  published_bytes_ += headers_size + publication.payload.size();
  const bool is_request = !publication.reply_end.empty();
  if (is_request) {
    note_request();
  } else {
    note_output();
  }
}

client_core::outgoing_message client_core::publication_of(std::string_view subject,
                                                          payload_view payload,
                                                          const publish_options& options) noexcept {
  return {.subject = subject,
          .reply = options.reply,
          .headers = options.headers,
          .payload = payload.text()};
}

task<> client_core::publish(shared core, std::string_view subject, payload_view payload,
                            publish_options options) {
  client_core& self = of(core);
  const outgoing_message publication = publication_of(subject, payload, options);
  self.check_message(publication);
  semaphore_permit turn;
  if (!self.may_append_now(publication.size())) {
    task<semaphore_permit> room = self.wait_for_room(publication.size());
    turn = co_await std::move(room);
    self.check_message(publication);  // the first login has made the server's limits known
  }
  self.append_message(publication);
}

bool client_core::try_publish(const shared& core, std::string_view subject, payload_view payload,
                              const publish_options& options) {
  client_core& self = of(core);
  const outgoing_message publication = publication_of(subject, payload, options);
  self.check_message(publication);
  if (!self.may_append_now(publication.size())) {
    self.server_link::connect();
    return false;
  }
  self.append_message(publication);
  return true;
}

// --- Requests ---

task<message> client_core::request(shared core, std::string_view subject, payload_view payload,
                                   request_options options) {
  client_core& self = of(core);
  std::array<char, key_size> key{};
  outgoing_message publication{.subject = subject,
                               .reply = self.inbox_,
                               .reply_end = {key.data(), key.size()},
                               .headers = options.headers,
                               .payload = payload.text()};
  self.check_message(publication);
  const trace::detail::named_wait record(trace::detail::event_kind::nats_request, subject);
  const duration limit = options.timeout.value_or(self.options().request_timeout);
  const steady_time deadline = self.loop().deadline_after(limit);

  semaphore_permit turn;
  if (!self.may_append_now(publication.size())) {
    try {
      auto room = with_timeout(self.wait_for_room(publication.size()), limit);
      turn = co_await std::move(room);
    } catch (const std::system_error& error) {
      if (error.code() != time_limit_errc::expired) throw;
      self.throw_request_timeout(subject);
    }
    self.check_message(publication);
  }
  pending_request entry(self, subject);
  if (!std::exchange(self.has_inbox_subscription_, true) && self.is_ready()) {
    self.append_inbox_subscription();
  }
  const char* const key_end =
      std::to_chars(key.data(), key.data() + key.size(), entry.key(), key_base).ptr;
  publication.reply_end = {key.data(), key_end};
  entry.is_handed_over = self.is_ready();
  self.append_message(publication);
  turn.release();

  auto result = as_expected(with_timeout(entry.wait(), deadline - self.loop().now()));
  const auto outcome = co_await std::move(result);
  if (!outcome) self.throw_request_timeout(subject);
  co_return entry.take_reply();
}

void client_core::throw_request_timeout(std::string_view subject) const {
  throw std::system_error(make_error_code(errc::request_timeout),
                          describe() + ": " + std::string(subject));
}

void client_core::append_inbox_subscription() {
  line_writer(output(), inbox_.size() + line_size)
      .add("SUB ")
      .add(inbox_)
      .add("* ")
      .add(inbox_sid)
      .add(crlf);
  note_output();
}

void client_core::take_reply(const operation& delivery) {
  std::uint64_t key = 0;
  if (delivery.subject.starts_with(inbox_)) {
    const std::string_view token = delivery.subject.substr(inbox_.size());
    const char* const end = token.data() + token.size();
    const auto result = std::from_chars(token.data(), end, key, key_base);
    if (result.ec != std::errc() || result.ptr != end) key = 0;
  }
  pending_request* const entry = requests_.find(key);
  if (entry == nullptr) {
    ++late_replies_;
    return;
  }
  try {
    message reply(message_block::make(delivery));
    if (reply.status() == no_responders_status && delivery.payload.empty()) {
      return entry->fail(error_with(make_error_code(errc::no_responders), entry->subject()));
    }
    entry->complete(std::move(reply));
  } catch (const std::bad_alloc&) {
    entry->fail(std::current_exception());
  }
}

std::string client_core::new_inbox() {
  // The subject "PREFIX.RANDOM.NUMBER.i" cannot be that of a request's reply, which has a token
  // less.
  return inbox_ + std::to_string(++next_inbox_) + ".i";
}

// --- Subscriptions ---

subscription client_core::subscribe(const shared& core, std::string subject,
                                    subscription_options options) {
  client_core& self = of(core);
  check_pattern(subject);
  check_queue_group(options.queue_group);
  if (options.max_messages == 0) {
    throw std::invalid_argument("gyre::nats::client::subscribe: max_messages must be at least 1");
  }
  if (self.is_closed()) throw std::system_error(make_error_code(io::errc::not_open), client_name);
  if (self.drain_ != nullptr) throw std::system_error(make_error_code(errc::draining), client_name);
  self.server_link::connect();
  auto state = std::make_shared<subscription_state>(std::move(subject), std::move(options));
  subscription result(core, state);
  state->sid = self.subscriptions_.insert(*state);
  if (self.is_ready()) self.append_subscribe(*state);
  return result;
}

void client_core::append_subscribe(const subscription_state& target) {
  {
    line_writer writer(output(), target.subject().size() + target.queue_group().size() + line_size);
    writer.add("SUB ").add(target.subject()).add(" ");
    if (!target.queue_group().empty()) writer.add(target.queue_group()).add(" ");
    writer.add(target.sid).add(crlf);
  }
  if (target.limit() > 0) append_unsubscribe(target.sid, target.limit() - target.received());
  note_output();
}

void client_core::append_unsubscribe(std::uint64_t sid, std::uint64_t limit) {
  {
    line_writer writer(output(), line_size);
    writer.add("UNSUB ").add(sid);
    if (limit > 0) writer.add(" ").add(limit);
    writer.add(crlf);
  }
  note_output();
}

// Removes a subscription that gets no further messages.
void client_core::remove_subscription(subscription_state& target, bool must_unsubscribe) noexcept {
  subscriptions_.erase(target.sid);
  if (!must_unsubscribe || !is_ready()) return;
  try {
    append_unsubscribe(target.sid, 0);
  } catch (const std::bad_alloc&) {
    return;  // no memory: the server keeps sending messages, which on_message() drops
  }
}

// Ends a subscription whose queued messages may still be read. drain() waits until next() has
// returned the end.
void client_core::end_subscription(subscription_state& target, bool must_unsubscribe,
                                   const std::exception_ptr& error) noexcept {
  remove_subscription(target, must_unsubscribe);
  target.end(error);
  unconsumed_.push_back(target);
}

void client_core::unsubscribe(subscription_state& target) noexcept {
  if (!target.has_ended()) {
    remove_subscription(target, !target.is_draining());
    target.end();
  }
  target.clear();
  target.note_consumed();
}

task<> client_core::drain_subscription(shared core, std::shared_ptr<subscription_state> target) {
  client_core& self = of(core);
  // Ends the subscription if the call that began its drain is stopped, or destroyed.
  struct drain_scope {
    client_core& core;
    subscription_state* target = nullptr;
    ~drain_scope() {
      if (target != nullptr && !target->has_ended()) core.end_subscription(*target, false);
    }
  } scope{self};
  if (!target->has_ended() && self.is_ready()) {
    if (!target->is_draining()) {
      self.append_unsubscribe(target->sid, 0);
      target->begin_drain();
      scope.target = target.get();
    }
    auto ping_attempt = as_expected(self.ping());
    static_cast<void>(co_await std::move(ping_attempt));  // a lost connection ends the drain, too
  }
  if (!target->has_ended()) self.end_subscription(*target, false);
}

void client_core::on_message(const operation& delivery) {
  ++received_messages_;
  received_bytes_ += delivery.headers.size() + delivery.payload.size();
  if (delivery.sid == inbox_sid) return take_reply(delivery);
  subscription_state* const target = subscriptions_.find(delivery.sid);
  if (target == nullptr) return;  // the subscription ended before this message came
  const auto result = target->push(delivery);
  if (result != subscription_state::push_result::queued) ++dropped_messages_;
  if (result == subscription_state::push_result::overflow) {
    end_subscription(*target, true,
                     error_with(make_error_code(errc::slow_consumer), target->subject()));
    return report_notice(notice::slow_consumer, std::string(target->subject()));
  }
  if (target->has_reached_limit()) end_subscription(*target, false);
  if (result == subscription_state::push_result::first_dropped) {
    report_notice(notice::slow_consumer, std::string(target->subject()));
  }
}

// --- Events of the connection ---

void client_core::on_ready() {
  std::vector<subscription_state*> subscriptions;
  subscriptions_.for_each([&](subscription_state& subscription) {
    if (subscription.is_draining()) return subscriptions.push_back(&subscription);
    append_subscribe(subscription);
  });
  for (subscription_state* const subscription : subscriptions)
    end_subscription(*subscription, false);
  if (has_inbox_subscription_) append_inbox_subscription();
  requests_.for_each([](pending_request& request) { request.is_handed_over = true; });
}

void client_core::on_server_error(std::string_view text) {
  ++server_errors_;
  const std::error_code code = make_error_code(code_of(text));
  if (code == errc::permission_denied) deny(text, error_with(code, text));
  report_notice(notice::server_error, text);
}

// Ends the requests or the subscription that a permissions violation concerns. The text is
// "Permissions Violation for Publish to "SUBJECT"", or "… for Subscription to "SUBJECT" using queue
// "GROUP"".
void client_core::deny(std::string_view text, const std::exception_ptr& error) {
  const std::string_view subject = quoted(text);
  if (text.find("ubscription to") == std::string_view::npos) {
    return requests_.for_each([&](pending_request& request) {
      if (request.subject() == subject) request.fail(error);
    });
  }
  if (subject.size() == inbox_.size() + 1 && subject.starts_with(inbox_)) {
    has_inbox_subscription_ = false;
    return requests_.for_each([&](pending_request& request) { request.fail(error); });
  }
  const std::size_t group_begin = text.find("using queue");
  const std::string_view group =
      group_begin == std::string_view::npos ? "" : quoted(text.substr(group_begin));
  subscriptions_.for_each([&](subscription_state& subscription) {
    if (subscription.subject() != subject || subscription.queue_group() != group) return;
    end_subscription(subscription, false, error);
  });
}

void client_core::on_lost(const std::exception_ptr& error) noexcept {
  requests_.for_each([&](pending_request& request) {
    if (request.is_handed_over) request.fail(error);
  });
  subscriptions_.for_each([](subscription_state& subscription) { subscription.note_gap(); });
}

void client_core::on_refused(const std::exception_ptr& error) noexcept { end_all(error); }

void client_core::end_all(const std::exception_ptr& error) noexcept {
  requests_.for_each([&](pending_request& request) { request.fail(error); });
  subscriptions_.for_each(
      [&](subscription_state& subscription) { end_subscription(subscription, false, error); });
}

// --- The end ---

void client_core::close() noexcept {
  if (is_closed()) return;
  close_link();
  const std::exception_ptr error = error_with(make_error_code(io::errc::closed), "closed");
  requests_.for_each([&](pending_request& request) { request.fail(error); });
  end_all(nullptr);
  // A running drain() waits until these subscriptions were read; it then finds the client closed.
  while (subscription_state* const subscription = unconsumed_.pop_front())
    subscription->note_consumed();
}

task<> client_core::drain(shared core) {
  client_core& self = of(core);
  if (self.is_closed()) co_return;
  if (const std::shared_ptr<drain_end> current_drain = self.drain_) {
    co_await current_drain->end_event.wait();
    if (current_drain->error) std::rethrow_exception(current_drain->error);
    co_return;
  }
  const auto end = std::make_shared<drain_end>();
  // The error that later calls of drain() throw if this call is stopped or destroyed.
  end->error = self.error_with(make_error_code(io::errc::closed), "drain() was stopped");
  struct closing_scope {
    client_core& core;
    drain_end& end;
    ~closing_scope() {
      core.close();
      end.end_event.set();
    }
  } const closing{self, *end};
  self.drain_ = end;
  const duration limit = self.options().drain_timeout;
  try {
    if (limit > duration::zero()) {
      auto drain_task = with_timeout(self.drain_all(), limit);
      co_await std::move(drain_task);
    } else {
      task<> drain_task = self.drain_all();
      co_await std::move(drain_task);
    }
    end->error = nullptr;
  } catch (const operation_cancelled&) {
    throw;
  } catch (...) {
    end->error = std::current_exception();
    throw;
  }
}

task<> client_core::drain_all() {
  const auto self = std::static_pointer_cast<client_core>(shared_from_this());
  std::vector<std::shared_ptr<subscription_state>> subscriptions;
  for (subscription_state& subscription : unconsumed_)
    subscriptions.push_back(subscription.shared_from_this());
  subscriptions_.for_each([&](subscription_state& open_subscription) {
    if (is_ready() && !open_subscription.is_draining())
      append_unsubscribe(open_subscription.sid, 0);
    open_subscription.begin_drain();
    subscriptions.push_back(open_subscription.shared_from_this());
  });
  if (is_ready()) {
    auto ping_attempt = as_expected(ping());
    static_cast<void>(co_await std::move(ping_attempt));
  }
  for (const auto& subscription : subscriptions) {
    if (!subscription->has_ended()) end_subscription(*subscription, false);
  }
  for (const auto& subscription : subscriptions) co_await subscription->wait_until_consumed();
  if (is_closed()) throw std::system_error(make_error_code(io::errc::closed), describe());
  if (is_ready() || kept_bytes() > 0) {
    task<> ping_task = ping();
    co_await std::move(ping_task);
  }
}

}  // namespace gyre::nats::detail
