// Show a note when newer scores are published. The page itself is not reloaded.
const {newest} = document.getElementById("main").dataset;
if (newest) setInterval(async () => {
  try {
    const {as_of} = await (await fetch("readyz")).json();
    document.getElementById("newer").hidden = !(Date.parse(as_of) > Date.parse(newest));
  } catch { /* the server is away */ }
}, 60000);
