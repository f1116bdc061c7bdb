// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/listener.hpp>

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/engines/postgres/detail/quote_identifier.hpp>
#include <gyre/engines/postgres/detail/run_on_core.hpp>
#include <gyre/engines/postgres/detail/statement_reply.hpp>
#include <gyre/engines/postgres/error.hpp>
#include <gyre/io/error.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <stdexcept>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {
namespace {

connection_options with_observer(connection_options options, connection_observer& observer) {
  options.observer = &observer;
  return options;
}

}  // namespace

listener::listener(event_loop& loop, const net::host_port& server, connection_options options)
    : loop_(loop),
      confirmations_("gyre_" + std::to_string(gyre::detail::random_seed())),
      server_(server),
      options_(with_observer(std::move(options), *this)) {}

listener::~listener() { end(); }

task<subscription> listener::listen(shared self, std::string channel,
                                    subscription_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  require_caller(context, self->loop_);
  if (options.max_messages == 0) {
    throw std::invalid_argument("gyre::postgres::client::listen: max_messages must be at least 1");
  }
  constexpr std::size_t longest_name = 63;
  if (channel.empty() || channel.size() > longest_name || channel.contains('\0')) {
    throw std::invalid_argument(
        "gyre::postgres::client::listen: the name of a channel has 1 to 63 bytes");
  }
  const std::string script = "listen " + quote_identifier(channel);
  const auto queue = std::make_shared<notification_queue>(std::move(channel), options);
  self->channels_[queue->channel()].push_back(queue);
  subscription result(self, queue);
  for (;;) {
    if (self->has_ended_) {
      throw std::system_error(make_error_code(io::errc::closed), "gyre::postgres::client");
    }
    if (self->core_ == nullptr) {
      self->core_ = std::make_shared<connection_core>(self->loop_, self->server_, self->options_);
    }
    const std::shared_ptr<connection_core> core = self->core_;
    if (!core->try_admit()) {
      task<> turn = core->admit();
      co_await std::move(turn);
    }
    core->set_needed(true);
    statement_reply reply(*core);
    core->query(reply, script);
    co_await reply.wait();
    // A lost connection only repeats the loop, as LISTEN may be executed twice.
    const bool is_complete = reply.result() == statement_reply::outcome::complete;
    if (is_complete || self->has_ended_) {
      reply.throw_if_failed(script);
      queue->note_confirmed();
      co_return result;
    }
  }
}

void listener::remove(const notification_queue& queue) noexcept {
  const auto match = channels_.find(queue.channel());
  if (match == channels_.end()) return;
  std::erase_if(match->second, [&](const auto& subscriber) { return subscriber.get() == &queue; });
  if (!match->second.empty()) return;
  try {
    if (core_ != nullptr && core_->is_ready())
      core_->append_internal_script("unlisten " + quote_identifier(queue.channel()));
  } catch (...) {  // NOLINT: without memory the server keeps sending notifications to nobody
  }
  channels_.erase(match);
  if (channels_.empty() && core_ != nullptr) std::exchange(core_, nullptr)->close();
}

void listener::end() noexcept {
  if (std::exchange(has_ended_, true)) return;
  if (core_ != nullptr) core_->close();
  for (const auto& [channel, queues] : channels_) {
    for (const auto& queue : queues) queue->end();
  }
  channels_.clear();
}

void listener::on_login(connection_core& connection) {
  if (channels_.empty()) return;
  std::string script = "listen " + confirmations_ + ';';
  for (const auto& [channel, queues] : channels_) {
    script.append("listen ").append(quote_identifier(channel)).append(";");
  }
  // The notification comes after the confirmations of all channels: from then on nothing is missed,
  // and the gap can be reported.
  connection.append_internal_script(script + "notify " + confirmations_);
}

void listener::on_notification(std::string_view channel, std::string_view payload,
                               std::int32_t process) noexcept {
  if (channel == confirmations_) {
    for (const auto& [name, queues] : channels_) {
      for (const auto& queue : queues) queue->note_replaced_connection();
    }
    return;
  }
  const auto match = channels_.find(channel);
  if (match == channels_.end()) return;
  for (const auto& queue : match->second) queue->push(payload, process);
}

}  // namespace gyre::postgres::detail
