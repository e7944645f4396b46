
(() => {
  const form = document.getElementById('filters'), shown = document.getElementById('shown');
  if (!form) return;
  const cases = [...document.querySelectorAll('details.case')];
  const apply = () => {
    const kind = form.elements.kind.value, words = form.elements.words.value.toLowerCase();
    let count = 0;
    for (const each of cases) {
      const fits = (!kind || each.classList.contains(kind)) &&
        (!words || each.querySelector('summary').textContent.toLowerCase().includes(words));
      each.hidden = !fits;
      count += fits;
    }
    shown.textContent = count + ' of ' + cases.length + ' shown';
  };
  form.addEventListener('input', apply);
  form.addEventListener('submit', event => event.preventDefault());
  form.hidden = false;
  apply();
  const named = location.hash && document.getElementById(location.hash.slice(1));
  if (named && named.matches('details')) { named.open = true; named.scrollIntoView(); }
})();
