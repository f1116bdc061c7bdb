// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/resolver.hpp>

#include <gyre/net/detail/name_engine.hpp>
#include <gyre/net/detail/number.hpp>

#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <new>

namespace gyre::net {

std::optional<std::uint16_t> service::find(std::string_view name) {
  if (const auto number = detail::parse_number<std::uint16_t>(name)) return number;
  const std::string terminated(name);
  std::vector<char> room(1024);
  servent entry{};
  servent* found = nullptr;
  while (::getservbyname_r(terminated.c_str(), nullptr, &entry, room.data(), room.size(), &found) ==
         ERANGE) {
    room.resize(room.size() * 2);
  }
  if (found == nullptr || name.contains('\0')) return std::nullopt;
  return ntohs(static_cast<std::uint16_t>(found->s_port));
}

namespace detail {

// Owned by the lookup that the user has; after detach(), by itself.
struct callback_lookup : waiting_lookup {
  explicit callback_lookup(resolver::callback called) noexcept
      : waiting_lookup(&ended), found(std::move(called)) {}

  static void ended(waiting_lookup& told) {
    auto& self = static_cast<callback_lookup&>(told);
    resolver::callback found = std::move(self.found);
    resolve_result result = std::move(self.result);
    if (self.detached) delete &self;
    found(std::move(result));
  }

  resolver::callback found;
  bool detached = false;
};

}  // namespace detail

bool lookup::active() const noexcept { return owned_ != nullptr && owned_->active(); }

bool lookup::cancel() noexcept {
  const std::unique_ptr<detail::callback_lookup> ended(std::exchange(owned_, nullptr));
  return ended != nullptr && ended->active() && ended->owner->cancel(*ended);
}

void lookup::detach() noexcept {
  detail::callback_lookup* const left = std::exchange(owned_, nullptr);
  if (left == nullptr) return;
  left->detached = true;
  if (!left->active()) delete left;
}

resolver::resolver(event_loop& loop, resolver_options options)
    : engine_(std::make_shared<detail::name_engine>(loop, std::move(options))) {}

resolver::~resolver() { engine_->close(); }

std::size_t resolver::pending() const noexcept { return engine_->pending(); }

lookup resolver::resolve(std::string_view host, service port, callback found) {
  assert(!engine_->closed() && "a lookup was begun while its resolver is destroyed");
  auto begun = std::make_unique<detail::callback_lookup>(std::move(found));
  if (auto known = engine_->known(host, port)) {
    engine_->tell_later(*begun, std::move(*known));
  } else {
    engine_->ask(*begun, host, port);
  }
  return lookup(begun.release());
}

detail::resolve_awaiter resolver::resolve(std::string host, service port) {
  return {engine_, std::move(host), port};
}

namespace detail {

resolve_awaiter::~resolve_awaiter() {
  // relaxed: on the loop's thread, or never awaited.
  if (parties_.load(std::memory_order_relaxed) == 0) return;
  callback_.reset();
  assert((parties_.load(std::memory_order_relaxed) & (starting | cancelling)) == 0 &&
         "a lookup was destroyed that was about to start or to be cancelled");
  engine_->cancel(*this);
}

// False: go on at once.
bool resolve_awaiter::wait(const task_context& context) {
  where_ = context.where;
  token_ = context.stop;
  if (token_.stop_requested()) {
    waiting_lookup::result = std::unexpected(make_error_code(std::errc::operation_canceled));
    return false;
  }
  // relaxed: not shared yet.
  parties_.store(starting | resolving, std::memory_order_relaxed);
  if (engine_->loop().in_loop_thread()) return !start();
  engine_->loop().post(static_cast<operation&>(*this));
  return true;
}

// Whether it is over.
bool resolve_awaiter::start() noexcept {
  started_ = true;
  std::optional<resolve_result> known;
  try {
    if (engine_->closed()) {
      known = std::unexpected(make_error_code(std::errc::operation_canceled));
    } else {
      known = engine_->known(host_, service_);
    }
    if (!known) engine_->ask(*this, host_, service_);
  } catch (const std::bad_alloc&) {
    known = std::unexpected(make_error_code(std::errc::not_enough_memory));
  }
  if (known) {
    waiting_lookup::result = std::move(*known);
    return last_of(starting | resolving);
  }
  if (token_.stop_possible()) callback_.emplace(token_, on_stop{this});
  return last_of(starting);
}

// Any thread.
void resolve_awaiter::stop() noexcept {
  // acq_rel: the release is for cancel(), through the loop as well; the acquire pairs with the
  // release in last_of(), of one who left before.
  std::uint8_t seen = parties_.load(std::memory_order_acquire);
  do {
    if ((seen & resolving) == 0) return;
  } while (!parties_.compare_exchange_weak(seen, static_cast<std::uint8_t>(seen | cancelling),
                                           std::memory_order_acq_rel, std::memory_order_acquire));
  engine_->loop().post(static_cast<operation&>(*this));
}

void resolve_awaiter::cancel() noexcept {
  const bool in_time = engine_->cancel(*this);
  if (in_time) {
    waiting_lookup::result = std::unexpected(make_error_code(std::errc::operation_canceled));
  }
  if (last_of(in_time ? cancelling | resolving : cancelling)) go_on();
}

bool resolve_awaiter::last_of(unsigned leaving) noexcept {
  // release: pairs with the acquire of the last, who sees what the others did.
  const auto staying = static_cast<std::uint8_t>(~leaving);
  return (parties_.fetch_and(staying, std::memory_order_acq_rel) & staying) == 0;
}

// The awaiter may be gone afterwards.
void resolve_awaiter::go_on() noexcept {
  if (where_->running_here()) {
    gyre::detail::resume(home_.waiting);
  } else {
    where_->post(home_);
  }
}

void resolve_awaiter::run(operation& posted) {
  auto& self = static_cast<resolve_awaiter&>(posted);
  if (self.started_) {
    self.cancel();
  } else if (self.start()) {
    self.go_on();
  }
}

void resolve_awaiter::found(waiting_lookup& told) {
  auto& self = static_cast<resolve_awaiter&>(told);
  if (self.last_of(resolving)) self.go_on();
}

resolve_result resolve_awaiter::result() noexcept {
  callback_.reset();
  return std::move(waiting_lookup::result);
}

std::vector<endpoint> resolve_awaiter::await_resume() {
  resolve_result given = result();
  if (!given) throw std::system_error(given.error(), "resolve " + host_);
  return std::move(*given);
}

}  // namespace detail
}  // namespace gyre::net
