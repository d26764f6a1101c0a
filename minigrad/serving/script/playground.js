// The page: one column or two, the key, and the link that repeats what is on the page.

class Playground {
  constructor() {
    this.server = new Server();
    this.columns = [1, 2].map((number) => new Column(number, this.server, () => (this.showHelp(), this.keep())));
    $("compare").addEventListener("change", () => this.compare());
    $("both").addEventListener("click", () => this.writeBoth());
    $("lock").addEventListener("submit", (event) => {
      event.preventDefault();
      this.server.key = $("key").value.trim();
      this.open();
    });
    addEventListener("hashchange", () => $("columns").hidden || this.restore());
    this.showColumns();
    if ($("lock").hidden) this.open();
    else this.say("This server requires an API key.");
  }

  get isTwo() {
    return $("compare").checked;
  }

  get shown() {
    return this.isTwo ? this.columns : this.columns.slice(0, 1);
  }

  // The fields that a link keeps, of the columns that are shown, with their values: of the temperature that of texts.
  get fields() {
    const names = ["model", "temperature", ...Object.keys(OFF), "seed", "count"];
    return this.shown.flatMap((column) => names.map((name) => [column.part(name), column.valueOf(name)]));
  }

  // Ask which models there are, and show the columns.
  async open() {
    try {
      const names = await this.server.models();
      for (const column of this.columns) {
        column.part("model").replaceChildren(...names.map((name) => element("option", { value: name }, name)));
      }
      this.columns[1].part("model").value = names.at(1) ?? names[0];
      this.say("");
      $("lock").hidden = true;
      $("columns").hidden = $("top").hidden = false;
      this.restore();
    } catch (error) {
      this.say(error.message);
    }
  }

  // Show the second column, or hide it. It begins with the settings of the first, but another model if there is one.
  compare() {
    const [first, second] = this.columns, { isTwo } = this;
    for (const { id } of isTwo ? first.part("settings").querySelectorAll("input") : []) {
      $(id.replace(first.suffix, second.suffix)).value = first.valueOf(id.replace(first.suffix, ""));
    }
    this.showColumns();
    this.follow();
    this.keep();
  }

  // The second column begins with the prompt of the first.
  follow() {
    const [first, second] = this.columns;
    if (!this.isTwo) return second.stop();
    second.part("text").value = first.prompt;
    return second.choose();
  }

  // Write on in both columns from the prompt of the first.
  writeBoth() {
    const [first, second] = this.columns, { prompt } = first;
    for (const column of [first, second]) {
      if (column.isTalking) column.part("as-text").click();
      column.remember();
      column.leave(prompt);
      column.write();
    }
  }

  showColumns() {
    const { isTwo } = this;
    $("column-2").hidden = $("both").hidden = !isTwo;
    $("columns").classList.toggle("two", isTwo);
    for (const column of this.columns) showSliders(column.part("settings"));
    this.showHelp();
  }

  // The help is about texts, not about conversations.
  showHelp() {
    $("help").hidden = this.shown.every((column) => column.isTalking);
  }

  // Keep prompt, seed, settings and models in the address; browsers refuse to do so too often.
  keep() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => {
      const kept = new URLSearchParams(this.fields.map(([field, value]) => [field.id, value]));
      kept.set("compare", this.isTwo ? "1" : "0");
      kept.set("text", this.columns[0].prompt);
      history.replaceState(null, "", `#${kept}`);
    }, 200);
  }

  restore() {
    const kept = new URLSearchParams(location.hash.slice(1)), [first] = this.columns;
    $("compare").checked = kept.get("compare") === "1";
    for (const column of this.columns) column.temperature = null;
    for (const [field] of this.fields) {
      const value = kept.get(field.id), isKnown = field.id.startsWith("model") ? hasOption(field, value) : value !== null;
      if (isKnown) field.value = value;
    }
    this.showColumns();
    first.part("text").value = first.prompt = kept.get("text") ?? "";
    first.choose();
    this.follow();
  }

  say(text) {
    $("status").textContent = text;
  }
}

const hasOption = (field, value) => [...field.options].some((option) => option.value === value);

const playground = new Playground();
