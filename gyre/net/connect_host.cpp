// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/connect.hpp>
#include <gyre/net/detail/connecting.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/task/detail/this_context.hpp>

#include <utility>

namespace gyre::net {

task<tcp_stream> connect(resolver& names, std::string host, service port, race_options options) {
  const task_context& context = co_await gyre::detail::this_context();
  event_loop& loop = detail::loop_of(context);
  auto resolving = names.resolve(std::move(host), port);
  std::vector<endpoint> found = co_await std::move(resolving);
  task<tcp_stream> connecting = connect(loop, std::move(found), std::move(options));
  co_return co_await std::move(connecting);
}

}  // namespace gyre::net
