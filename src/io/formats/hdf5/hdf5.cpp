#include "io/formats/hdf5/hdf5.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/suggest.h"
#include "io/formats/hdf5/hdf5_tree.h"
#include "io/safetensors_header.h"

namespace sluice::io::formats {
namespace {

/// Gives back what a call charges that keeps nothing.
class BudgetOfCall {
 public:
  explicit BudgetOfCall(Hdf5Input& input) : input_(input), budget_(input.budget()) {}
  BudgetOfCall(const BudgetOfCall&) = delete;
  BudgetOfCall& operator=(const BudgetOfCall&) = delete;
  ~BudgetOfCall() { input_.set_budget(budget_); }

 private:
  Hdf5Input& input_;
  std::uint64_t budget_;
};

std::string joined(std::string_view path, std::string_view name) {
  std::string longer(path);
  if (!longer.empty() && longer.back() != '/') longer += '/';
  return longer += name;
}

}  // namespace

class Hdf5File::Impl {
 public:
  explicit Impl(ByteSource source) : input_(std::move(source)), tree_(input_) { tree_.find(""); }

  Hdf5Node* find(std::string_view path) { return tree_.find(path); }
  Hdf5Node& at(std::string_view path) {
    Hdf5Node* node = tree_.find(path);
    if (node == nullptr) {
      base::fail(ErrorCode::kNotFound, "{} has no {}", input_.name(), quote_name(path));
    }
    return *node;
  }

  const Hdf5Attribute& attribute(std::string_view path, std::string_view name) {
    Hdf5Node& node = at(path);
    if (const Hdf5Attribute* attribute = node.find_attribute(name)) return *attribute;
    std::vector<std::string_view> known;
    for (const Hdf5Attribute& other : node.attributes()) known.push_back(other.name);
    base::fail(ErrorCode::kNotFound, "{}: {} has no attribute {}{}", input_.name(),
               quote_name(path), quote_name(name), base::did_you_mean(name, known));
  }

  Hdf5Value value_of(std::string_view path, const Hdf5Attribute& attribute) {
    const BudgetOfCall budget(input_);
    return hdf5_value(input_, attribute.type, attribute.space,
                      std::as_bytes(std::span(attribute.content)),
                      where(path) + " attribute " + quote_name(attribute.name));
  }

  Hdf5Dataset dataset(std::string_view path) {
    Hdf5Node& node = at(path);
    if (!node.is_dataset()) {
      base::fail(ErrorCode::kNotFound, "{}: {} is no dataset", input_.name(), quote_name(path));
    }
    Hdf5Dataset dataset = parse_hdf5_dataset(input_, node.object());
    // Keras's mark for numbers that HDF5 has no type for.
    const bool is_opaque = dataset.type.kind == Hdf5TypeKind::kOpaque && dataset.type.bytes == 2;
    if (!is_opaque) return dataset;
    const Hdf5Attribute* mark = node.find_attribute("dtype");
    if (mark == nullptr) return dataset;
    const Hdf5Value value = value_of(path, *mark);
    if (value.is_text() && std::get<1>(value.content) == std::vector<std::string>{"bfloat16"}) {
      dataset.type.kind = Hdf5TypeKind::kNumber;
      dataset.type.number = *number_type(NumberKind::kBFloat16, 2);
    }
    return dataset;
  }

  Hdf5Value read(std::string_view path) {
    const BudgetOfCall budget(input_);
    const Hdf5Dataset found = dataset(path);
    const std::vector<std::byte> elements = read_hdf5_elements(input_, found, where(path));
    return hdf5_value(input_, found.type, found.space, elements, where(path));
  }

  void add_paths(Hdf5Node& node, const std::string& path, int level, std::set<std::uint64_t>& seen,
                 std::vector<std::string>& paths) {
    constexpr int kMostLevels = 64;
    if (!seen.insert(node.object().address()).second) return;
    if (level > kMostLevels) {
      base::fail(ErrorCode::kFormat, "{} has groups deeper than {} levels", input_.name(),
                 kMostLevels);
    }
    if (node.is_dataset()) paths.push_back(path);
    for (const Hdf5Link& link : node.links()) {
      if (link.kind != Hdf5LinkKind::kHard) continue;
      const std::string child = joined(path, link.name);
      require_room(child.size());
      add_paths(tree_.at(link.address), child, level + 1, seen, paths);
    }
  }

  /// Long names of groups stand in the paths of all that is below them.
  void require_room(std::size_t bytes) {
    path_bytes_ += bytes;
    if (path_bytes_ <= 16 * input_.size() + (64 << 10)) return;
    base::fail(ErrorCode::kFormat, "{}: the paths of its datasets are longer than the file",
               input_.name());
  }

  std::vector<std::string> dataset_paths(std::string_view path) {
    std::set<std::uint64_t> seen;
    std::vector<std::string> paths;
    path_bytes_ = 0;
    add_paths(at(path), std::string(path), 0, seen, paths);
    return paths;
  }

  std::string where(std::string_view path) const { return input_.name() + ": " + quote_name(path); }
  [[noreturn]] void refuse_content(std::string_view path, std::string_view wanted) const {
    base::fail(ErrorCode::kFormat, "{} should hold {}", where(path), wanted);
  }

 private:
  Hdf5Input input_;
  Hdf5Tree tree_;
  std::uint64_t path_bytes_ = 0;
};

Hdf5File::Hdf5File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;

Hdf5File Hdf5File::open(const std::filesystem::path& path) {
  return open(ByteSource(File::open(path)));
}
Hdf5File Hdf5File::open(ByteSource source) {
  return Hdf5File(std::make_unique<Impl>(std::move(source)));
}

bool Hdf5File::has(std::string_view path) { return impl_->find(path) != nullptr; }

Hdf5Kind Hdf5File::kind(std::string_view path) {
  const Hdf5Node& node = impl_->at(path);
  return node.is_dataset() ? Hdf5Kind::kDataset
         : node.is_group() ? Hdf5Kind::kGroup
                           : Hdf5Kind::kOther;
}

std::vector<std::string> Hdf5File::children(std::string_view path) {
  std::vector<std::string> names;
  for (const Hdf5Link& link : impl_->at(path).links()) names.push_back(link.name);
  return names;
}

std::vector<std::string> Hdf5File::dataset_paths(std::string_view path) {
  return impl_->dataset_paths(path);
}

std::vector<std::string> Hdf5File::attribute_names(std::string_view path) {
  std::vector<std::string> names;
  for (const Hdf5Attribute& each : impl_->at(path).attributes()) names.push_back(each.name);
  return names;
}

bool Hdf5File::has_attribute(std::string_view path, std::string_view name) {
  return impl_->at(path).find_attribute(name) != nullptr;
}

Hdf5Value Hdf5File::attribute(std::string_view path, std::string_view name) {
  return impl_->value_of(path, impl_->attribute(path, name));
}

std::string Hdf5File::attribute_text(std::string_view path, std::string_view name) {
  std::vector<std::string> texts = attribute_texts(path, name);
  if (texts.size() != 1) impl_->refuse_content(joined(path, name), "one text");
  return std::move(texts[0]);
}

std::vector<std::string> Hdf5File::attribute_texts(std::string_view path, std::string_view name) {
  Hdf5Value value = attribute(path, name);
  // Keras writes a list of no names as numbers.
  const HostTensor* numbers = std::get_if<HostTensor>(&value.content);
  if (numbers != nullptr && numbers->data.empty()) return {};
  if (!value.is_text()) impl_->refuse_content(joined(path, name), "texts");
  return std::get<std::vector<std::string>>(std::move(value.content));
}

Hdf5File::Description Hdf5File::describe(std::string_view path) {
  const Hdf5Dataset dataset = impl_->dataset(path);
  return {dataset.space.sizes, hdf5_type_name(dataset.type)};
}

Hdf5Value Hdf5File::read(std::string_view path) { return impl_->read(path); }

HostTensor Hdf5File::read_tensor(std::string_view path) {
  Hdf5Value value = impl_->read(path);
  if (value.is_text()) impl_->refuse_content(path, "numbers");
  return std::get<HostTensor>(std::move(value.content));
}

std::vector<std::string> Hdf5File::read_texts(std::string_view path) {
  Hdf5Value value = impl_->read(path);
  if (!value.is_text()) impl_->refuse_content(path, "texts");
  return std::get<std::vector<std::string>>(std::move(value.content));
}

}  // namespace sluice::io::formats
