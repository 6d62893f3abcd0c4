#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "interchange/arrays/named_arrays.h"
#include "io/file.h"
#include "io/formats/pickle/numpy_pickle.h"
#include "io/formats/pickle/pickle.h"

namespace sluice::interchange {
namespace {

namespace fs = std::filesystem;
using io::formats::Pickle;
using io::formats::PickleKind;
using io::formats::PickleValue;

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 31;
// Far more than people nest.
constexpr int kMostLevels = 32;
constexpr std::size_t kMostArrays = 100'000;
constexpr std::size_t kMostSteps = 10'000'000;

/// Finds the arrays of a pickle.
class Walk {
 public:
  explicit Walk(std::string where) : where_(std::move(where)) {}

  void visit(const PickleValue& value, const std::string& name, int level) {
    if (level > kMostLevels || ++steps_ > kMostSteps) {
      base::fail(ErrorCode::kFormat, "{}: values nest deeper than {} levels or refer to each other",
                 where_, kMostLevels);
    }
    if (io::formats::is_numpy_array(value)) return add(name, value);
    const std::string before = name.empty() ? "" : name + ".";
    if (value.is(PickleKind::kDict)) return visit_dict(value, before, level);
    if (value.is(PickleKind::kList) || value.is(PickleKind::kTuple)) {
      for (std::size_t i = 0; i < value.items().size(); ++i) {
        visit(*value.items()[i], before + std::to_string(i), level + 1);
      }
    }
    if (!value.is(PickleKind::kObject)) return;
    for (const PickleValue* part : {value.state(), value.entries()}) {
      if (part != nullptr && part->is(PickleKind::kDict)) visit_dict(*part, before, level);
    }
  }

  std::map<std::string, const PickleValue*> arrays;
  std::vector<std::string> names;  ///< in the order of the file

 private:
  void visit_dict(const PickleValue& dict, const std::string& before, int level) {
    const auto items = dict.items();
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      const PickleValue& key = *items[i];
      std::string name = "#" + std::to_string(i / 2);
      if (key.is_text()) name = key.text();
      if (key.is(PickleKind::kInt)) name = std::to_string(key.integer());
      visit(*items[i + 1], before + name, level + 1);
    }
  }
  void add(const std::string& name, const PickleValue& value) {
    if (names.size() == kMostArrays || !arrays.emplace(name, &value).second) {
      base::fail(ErrorCode::kFormat, "{}: there are two arrays '{}', or more than {}", where_, name,
                 kMostArrays);
    }
    names.push_back(name);
  }

  std::string where_;
  std::size_t steps_ = 0;
};

}  // namespace

NamedArrays open_pickle_arrays(const fs::path& path) {
  const std::string where = "'" + path.native() + "'";
  const auto pickle =
      std::make_shared<Pickle>(Pickle::parse(io::read_file(path, kLargestFile), where));
  const auto walk = std::make_shared<Walk>(where);
  walk->visit(pickle->root(), "", 0);
  const auto read = [pickle, walk, where](const std::string& name) {
    return io::formats::tensor_of_numpy(*walk->arrays.at(name), where + " array '" + name + "'");
  };
  std::vector<NamedArrays::Entry> entries;
  for (const std::string& name : walk->names) {
    const io::HostTensor tensor = read(name);
    entries.push_back({name, {tensor.shape.begin(), tensor.shape.end()}});
  }
  return {"a pickle of arrays", path, std::move(entries), read, true};
}

}  // namespace sluice::interchange
