#!/usr/bin/env python3
"""BLEU, chrF and chrF++ of the sacrebleu package, for src/metrics to equal.

    text_metrics.py            write tests/peers/goldens/text_metrics.json anew
    text_metrics.py --check    compute again and compare with the file
"""

import argparse
import json
import pathlib
import random
import sys

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

GOLDEN = pathlib.Path(__file__).parent / "goldens" / "text_metrics.json"
TOKENIZERS = "13a", "zh", "char", "none"
CHRF_WORD_ORDERS = {"chrF2": 0, "chrF2++": 2}

PLAIN = ("the cat sat on the mat near the door .", "a dog runs over a green field",
         "two people walk along the beach at night", "he reads a book")

HOSTILE = dict(
    plain=(["the cat sat on the mat by the door .", "a dog runs across the green field",
            "two people are walking along the beach", "he reads a book"], list(PLAIN)),
    identical=(list(PLAIN), list(PLAIN)),
    nothing_shared=(["xyz qqq www"], ["the cat sat"]),
    all_hypotheses_empty=(["", ""], ["the cat", "sat on the mat"]),
    all_references_empty=(["the cat", "sat on the mat"], ["", ""]),
    all_empty=(["", ""], ["", ""]),
    some_empty=(["the cat sat on the mat", "", "a dog runs over a green field", ""],
                ["the cat sat on the mat", "he reads a book", "", ""]),
    shorter_than_four_words=(["the cat", "a dog runs"], ["the cat", "a dog runs"]),
    one_letter=(["a"], ["a"]),
    no_four_gram_matches=(["the cat sat over a mat of the cat"], ["the cat sat on the mat"]),
    much_longer=(["the cat " * 40], ["the cat sat on the mat"]),
    repeated=(["the the the the the the the"], ["the cat is on the mat there"]),
    case=(["The Cat Sat On The Mat"], ["the cat sat on the mat"]),
    punctuation=(["\"Well,\" he said (slowly): it's 3.5% - isn't it?! [yes] {no} a/b a_b #1 @x ~ `y` <z>",
                  "...", ".,.,", "a.b.c,d", "- -- --- -.-", "co-operate e-mail, 2-3 2- -2 --2"],
                 ["\"Well\", he said slowly: it is 3.5 % - isn't it? [no] {yes} a / b a_b # 1 @ x ~ y < z >",
                  ". . .", ",.,.", "a . b.c , d", "--- -- - .-.", "cooperate email , 2 - 3 2 - - 2"]),
    numbers=(["1,000.50 1.000,50 3.14.15 .5 5. ,5 5, 1..2 1,,2 2020-11-22 10:30 1e-5 +49-30"],
             ["1,000.50 1 000,50 3.14 .15 0.5 5 . , 5 5 , 1 .. 2 1 , , 2 2020-11-21 10:31 1e - 5 49 - 30"]),
    entities=(["a &amp; b &lt;c&gt; &quot;d&quot; &amp;lt; &amp;amp; &apos; & <skipped> e<skipped>f &amp"],
              ["a & b <c> \"d\" < &amp; &apos; & e ef & amp"]),
    accents=(["Zwei Männer stehen am Herd und bereiten Essen zu, süß.", "Ein naïver Straßenhändler – «groß»"],
             ["Zwei Männer stehen am Herd und kochen Essen; süß!", "Ein naiver Straßenhändler — „groß“"]),
    composed=(["é n̈ 가 ﬁ"], ["e\u0301 n\u0308 \u1100\u1161 fi"]),
    chinese=(["我今天很高兴,你呢?", "他2020年去了北京。。。", "ＡＢＣ abc 3.5公里", "你好 ."],
             ["我今天非常高兴，你呢？", "他在2020年去过北京。", "ABC abc 3.5 公里", "你好."]),
    chinese_ends=([".5 。", ",你好,", " . "], ["5. 。", ", 你好 ,", "."]),
    beyond_the_first_plane=(["𠮷野家 😀😀 a😀b 𝔘𝔫𝔦", "👩‍👩‍👧 ok"], ["吉野家 😀 a😀b 𝔘𝔫𝔦", "👩‍👧 ok"]),
    white_space=(["\u3000a\u00a0b\u2009c\td\u2028e\u200bf\u0085g\u001ch  ", " a  b "],
                 ["a b c d e f g h", "a b"]),
    right_to_left=(["שלום עולם, מה שלומך؟", "مرحبا بالعالم ١٢٣٫٥"], ["שלום עולם. מה שלומך?", "مرحبا يا عالم ١٢٣٫٥"]),
    controls=(["a\u0000b \u0001 \u007f .\u0007"], ["a b \u0001 \u007f ."]),
)

ALPHABETS = (
    "abc ",
    "ab.,-12 ",
    "ab 01.,-:;!?'\"()[]{}<>&/%$#@*+=\\^_`|~",
    "aß é你好，。 ！北京2.5-",
    "a.\u3000\u00a0\u2003😀𠮷\u200b\u0301１２，、-",
)


def random_corpus(generator):
    """Lines of one alphabet, and the same lines after some edits."""
    alphabet = generator.choice(ALPHABETS)
    words = ["".join(generator.choices(alphabet, k=generator.randint(1, 5))) for _ in range(12)]
    words += ["&amp;", "&lt;", "<skipped>"] if generator.random() < 0.2 else []
    between = generator.choice(["", " "])
    hypotheses, references = [], []
    for _ in range(generator.randint(1, 8)):
        reference = generator.choices(words, k=generator.choice([0, 1, 3, 8, 20]))
        hypothesis = list(reference)
        for _ in range(generator.choice([0, 1, 2, 6])):
            at = generator.randint(0, len(hypothesis))
            hypothesis[at:at + generator.randint(0, 2)] = generator.choices(words, k=generator.randint(0, 2))
        if generator.random() < 0.05:
            hypothesis = []
        hypotheses.append(between.join(hypothesis))
        references.append(between.join(reference))
    return hypotheses, references


def score(hypotheses, references):
    bleu = {}
    for tokenizer in TOKENIZERS:
        result = BLEU(tokenize=tokenizer).corpus_score(hypotheses, [references])
        bleu[tokenizer] = dict(score=result.score, precisions=result.precisions,
                               brevity_penalty=result.bp, hypothesis_tokens=result.sys_len,
                               reference_tokens=result.ref_len)
    chrf = {name: CHRF(word_order=order).corpus_score(hypotheses, [references]).score
            for name, order in CHRF_WORD_ORDERS.items()}
    return dict(bleu=bleu, chrf=chrf)


def cases():
    generator = random.Random(5)
    corpora = dict(HOSTILE, **{f"random_{i}": random_corpus(generator) for i in range(30)})
    return [dict(name=name, hypotheses=hypotheses, references=references,
                 **score(hypotheses, references))
            for name, (hypotheses, references) in corpora.items()]


def numbers(tree):
    if isinstance(tree, dict):
        tree = [tree[key] for key in sorted(tree)]
    return [value for part in tree for value in numbers(part)] if isinstance(tree, list) else [tree]


def compare_golden():
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    now = cases()
    assert [case["name"] for case in now] == [case["name"] for case in golden]
    worst = max(abs(new - old) for a, b in zip(now, golden) for part in ("bleu", "chrf")
                for new, old in zip(numbers(a[part]), numbers(b[part])))
    print(f"largest difference from {GOLDEN.name}: {worst:.2e}")
    return worst < 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    if arguments.check:
        return 0 if compare_golden() else 1
    golden = dict(sacrebleu=sacrebleu.__version__, cases=cases())
    GOLDEN.write_text(json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n",
                      encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
