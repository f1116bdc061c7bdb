// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/route_group.hpp>

#include <gyre/http/detail/server_core.hpp>

#include <utility>

namespace gyre::http {

route_group::route_group(std::shared_ptr<detail::server_core> core,
                         detail::route_scope& scope) noexcept
    : core_(std::move(core)), scope_(&scope) {}

route_group route_group::group(std::string_view prefix) {
  return route_group(core_, core_->add_scope(*scope_, prefix));
}

route_group& route_group::use(middleware layer) {
  core_->add(*scope_, std::move(layer));
  return *this;
}

std::string_view route_group::prefix() const noexcept { return scope_->prefix; }

route_group& route_group::add_route(method_set methods, std::string_view pattern, handler function,
                                    route_options options) {
  core_->add(*scope_, methods, pattern, std::move(function), options);
  return *this;
}

}  // namespace gyre::http
