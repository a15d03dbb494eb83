// How the search orders what it has found: pages for contributors come last.
var Scorer = {
  score: ([page, , , , score]) =>
    /^(contributing|reference|project|architecture|dependencies|differences|matrix|protocol|sources)\b/.test(page) ? score - 20 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
