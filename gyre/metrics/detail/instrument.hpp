// SPDX-License-Identifier: Apache-2.0
// instrument: a named counter, gauge or histogram, or a family of them, as a registry keeps it.
#pragma once

#include <gyre/metrics/label.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gyre::metrics {

class counter;
class duration_histogram;
class exposition;
class gauge;
class size_histogram;

namespace detail {

/// Makes an instrument of a family.
template <class Instrument>
using prototype = std::function<std::unique_ptr<Instrument>()>;

void write_value(exposition& output, std::string_view name, std::string_view help,
                 const counter& value, label_view labels);
void write_value(exposition& output, std::string_view name, std::string_view help,
                 const gauge& value, label_view labels);
void write_value(exposition& output, std::string_view name, std::string_view help,
                 const duration_histogram& value, label_view labels);
void write_value(exposition& output, std::string_view name, std::string_view help,
                 const size_histogram& value, label_view labels);

/// A metric that a registry owns.
class instrument {
 public:
  instrument(const instrument&) = delete;
  instrument& operator=(const instrument&) = delete;
  virtual ~instrument() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& help() const noexcept { return help_; }
  virtual void write(exposition& output) const = 0;
  [[nodiscard]] virtual bool has_labels(std::span<const std::string> names) const noexcept = 0;

 protected:
  instrument(std::string name, std::string help) noexcept
      : name_(std::move(name)), help_(std::move(help)) {}

 private:
  const std::string name_;
  const std::string help_;
};

/// An instrument without labels.
template <class Instrument>
class single_instrument final : public instrument {
 public:
  template <class... Arguments>
  single_instrument(std::string name, std::string help, const Arguments&... arguments)
      : instrument(std::move(name), std::move(help)), value(arguments...) {}

  void write(exposition& output) const override { write_value(output, name(), help(), value, {}); }
  [[nodiscard]] bool has_labels(std::span<const std::string> names) const noexcept override {
    return names.empty();
  }

  Instrument value;
};

}  // namespace detail
}  // namespace gyre::metrics
