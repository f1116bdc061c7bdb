// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/tls/load.hpp>

#include <lab/harness/network/closed_load.hpp>
#include <lab/harness/network/socket.hpp>

#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

namespace lab::tls {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 17;
constexpr int longest_wait_ms = 100;
constexpr std::size_t held_at_once = 16;
constexpr std::string_view cipher = "TLS_AES_256_GCM_SHA384";

std::string make_message(std::size_t size, std::size_t seed) {
  std::string made(size, '\0');
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<char>((i + seed) * 31 % 251);
  return made;
}

// The outcome of a call that reads or writes: some bytes, none yet, the end, or an error.
enum class outcome : std::uint8_t { done, waits, ended, failed };

outcome outcome_of(SSL* ssl, int result) {
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_NONE: return outcome::done;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return outcome::waits;
    case SSL_ERROR_ZERO_RETURN: return outcome::ended;
    default: ERR_clear_error(); return outcome::failed;
  }
}

outcome outcome_of(ssize_t result) {
  if (result > 0) return outcome::done;
  if (result == 0) return outcome::ended;
  return errno == EAGAIN || errno == EINTR ? outcome::waits : outcome::failed;
}

}  // namespace

enum class load::phase : std::uint8_t { closed, shaking_hands, exchanging, idle, ending };

struct load::slot {
  ~slot() { SSL_SESSION_free(session); }

  outcome read(char* into, std::size_t size, std::size_t& got) {
    if (ssl == nullptr) {
      const ssize_t result = recv(fd, into, size, 0);
      got = result > 0 ? static_cast<std::size_t>(result) : 0;
      return outcome_of(result);
    }
    const int result = SSL_read_ex(ssl, into, size, &got);
    return result == 1 ? outcome::done : outcome_of(ssl, result);
  }

  outcome write(std::string_view bytes, std::size_t& put) {
    if (ssl == nullptr) {
      const ssize_t result = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      put = result > 0 ? static_cast<std::size_t>(result) : 0;
      return outcome_of(result);
    }
    const int result = SSL_write_ex(ssl, bytes.data(), bytes.size(), &put);
    return result == 1 ? outcome::done : outcome_of(ssl, result);
  }

  int fd = -1;
  SSL* ssl = nullptr;
  load::phase phase = load::phase::closed;
  bool stays = false;  // one of hold()
  SSL_SESSION* session = nullptr;
  int tickets = 0;  // of this connection
  std::string message;
  std::size_t to_send = 0;  // bytes; of two messages where a surplus one is sent
  std::size_t received = 0;
};

load::load(const load_plan& plan, context trusting)
    : plan_(plan),
      context_(std::move(trusting)),
      epoll_(network::checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      buffer_(std::make_unique_for_overwrite<char[]>(buffer_bytes)) {
  SSL_CTX_sess_set_new_cb(context_.get(), &keep_session);
  for (std::size_t i = 0; i < plan_.connections; ++i) add_slot();
}

load::~load() {
  for (const auto& each : slots_) close_slot(*each);
  close(epoll_);
}

int load::keep_session(SSL* of, SSL_SESSION* session) {
  slot& at = *static_cast<slot*>(SSL_get_app_data(of));
  SSL_SESSION_free(at.session);
  at.session = session;
  ++at.tickets;
  return 1;
}

load::slot& load::add_slot() {
  slot& made = *slots_.emplace_back(std::make_unique<slot>());
  made.message = make_message(plan_.message_bytes, slots_.size());
  return made;
}

void load::open(slot& at) {
  at.fd = network::begin_connect(plan_.port, opened_++);
  at.to_send = at.received = 0;
  at.tickets = 0;
  if (plan_.encrypted) {
    at.ssl = SSL_new(context_.get());
    SSL_set_fd(at.ssl, at.fd);
    SSL_set_app_data(at.ssl, &at);
    SSL_set_tlsext_host_name(at.ssl, "localhost");
    if (plan_.resumed && at.session != nullptr) SSL_set_session(at.ssl, at.session);
    SSL_set_connect_state(at.ssl);
  }
  ++open_;
  at.phase = phase::shaking_hands;
  epoll_event wanted{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = &at}};
  network::checked(epoll_ctl(epoll_, EPOLL_CTL_ADD, at.fd, &wanted), "epoll_ctl");
}

void load::close_slot(slot& at) {
  if (at.phase == phase::closed) return;
  SSL_free(at.ssl);
  at.ssl = nullptr;
  close(at.fd);
  at.fd = -1;
  at.phase = phase::closed;
  --open_;
}

void load::fail(slot& at, std::string_view why) {
  ++wrong_;
  if (mistake_.empty()) mistake_ = why;
  close_slot(at);
}

// Takes turns until `done`, a mistake, or a time without an answer.
template <class Done>
void load::await(Done done) {
  network::turn_until([this] { turn(); }, [this] { return answered_ + opened_ - open_; },
                      [&] { return wrong_ != 0 || done(); });
}

void load::run(clock::time_point end) {
  running_ = true;
  for (const auto& each : slots_) {
    if (each->phase == phase::closed) open(*each);
    if (each->phase == phase::idle && !each->stays) send_message(*each);
  }
  await([end] { return clock::now() >= end; });
}

void load::finish() {
  running_ = false;
  await([this] { return answered_ == sent_; });
  if (wrong_ != 0 || answered_ != sent_) return;
  for (const auto& each : slots_) {
    if (each->phase == phase::idle) end(*each);
  }
  await([this] { return open_ == 0; });
  if (wrong_ == 0 && open_ != 0) fail(*slots_.front(), "a connection that the server does not end");
}

void load::hold(std::size_t count) {
  running_ = false;
  for (std::size_t begun = 0; begun < count;) {
    const std::size_t more = std::min(held_at_once, count - begun);
    const std::size_t held = slots_.size();
    for (std::size_t i = 0; i < more; ++i) {
      slot& made = add_slot();
      made.stays = true;
      open(made);
    }
    begun += more;
    const auto is_idle = [](const auto& each) { return each->phase == phase::idle; };
    const auto all_idle = [&] {
      return std::ranges::all_of(std::span(slots_).subspan(held), is_idle);
    };
    await(all_idle);
    if (!all_idle()) return;
  }
}

bool load::shake_hands(slot& at) {
  if (at.ssl != nullptr) {
    const int result = SSL_do_handshake(at.ssl);
    const outcome how = outcome_of(at.ssl, result);
    if (how == outcome::waits) return false;
    if (how != outcome::done) return fail(at, "a handshake that fails"), false;
    const bool reused = SSL_session_reused(at.ssl) == 1;
    if (reused != (plan_.resumed && at.session != nullptr)) {
      return fail(at, "a session that is resumed, or is not, against the plan"), false;
    }
    if (cipher != SSL_get_cipher_name(at.ssl)) return fail(at, "another cipher"), false;
  }
  send_message(at);
  return at.phase == phase::exchanging;
}

// A sabotaged message is counted and not sent, or sent and not counted.
void load::send_message(slot& at) {
  at.phase = phase::exchanging;
  at.to_send = at.message.size();
  at.received = 0;
  ++sent_;
  if (plan_.sabotage != fault::none && !is_sabotaged_) {
    is_sabotaged_ = true;
    at.to_send = plan_.sabotage == fault::lose ? 0 : 2 * at.to_send;
  }
  write_rest(at);
}

bool load::write_rest(slot& at) {
  while (at.to_send > 0) {
    const std::size_t part = (at.to_send - 1) % at.message.size() + 1;
    const std::string_view rest = std::string_view(at.message).substr(at.message.size() - part);
    std::size_t put = 0;
    const outcome how = at.write(rest, put);
    if (how == outcome::waits) return true;
    if (how != outcome::done) return fail(at, "a connection that cannot be written"), false;
    at.to_send -= put;
  }
  return true;
}

bool load::read_answer(slot& at) {
  std::size_t got = 0;
  const outcome how = at.read(buffer_.get(), buffer_bytes, got);
  if (how == outcome::waits) return false;
  if (how != outcome::done) return fail(at, "a connection that ends early"), false;
  take(at, got);
  return at.phase == phase::exchanging || at.phase == phase::idle || at.phase == phase::ending;
}

void load::take(slot& at, std::size_t size) {
  if (at.phase != phase::exchanging || size > at.message.size() - at.received) {
    return fail(at, "bytes that nothing has asked for");
  }
  if (std::memcmp(at.message.data() + at.received, buffer_.get(), size) != 0) {
    return fail(at, "a wrong byte");
  }
  at.received += size;
  if (at.received == at.message.size()) answered(at);
}

void load::answered(slot& at) {
  if (at.ssl != nullptr && at.tickets != (SSL_session_reused(at.ssl) == 1 ? 1 : 2)) {
    return fail(at, "another number of session tickets");
  }
  ++answered_;
  if (plan_.renewed && !at.stays) return end(at);
  at.phase = phase::idle;
  if (running_ && !at.stays) send_message(at);
}

void load::end(slot& at) {
  at.phase = phase::ending;
  if (at.ssl != nullptr) SSL_shutdown(at.ssl);
  shutdown(at.fd, SHUT_WR);
}

bool load::await_end(slot& at) {
  std::size_t got = 0;
  const outcome how = at.read(buffer_.get(), buffer_bytes, got);
  if (how == outcome::waits) return false;
  if (how == outcome::done) return fail(at, "bytes that nothing has asked for"), false;
  if (how == outcome::failed) return fail(at, "a connection that does not end cleanly"), false;
  const bool renews = running_ && plan_.renewed && !at.stays;
  close_slot(at);
  if (renews) open(at);
  return false;
}

// Goes on until nothing can be done without another event: epoll tells of each but once.
void load::go_on(slot& at) {
  for (bool more = true; more;) {
    switch (at.phase) {
      case phase::closed: return;
      case phase::shaking_hands: more = shake_hands(at); break;
      case phase::exchanging: more = write_rest(at) && read_answer(at); break;
      case phase::idle: more = read_answer(at); break;
      case phase::ending: more = await_end(at); break;
    }
  }
}

// Handles the events that come within a moment.
void load::turn() {
  std::array<epoll_event, 256> events;
  const int ready =
      epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), longest_wait_ms);
  for (int i = 0; i < ready; ++i) {
    go_on(*static_cast<slot*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
}

}  // namespace lab::tls
